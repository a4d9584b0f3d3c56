/* SPDX-License-Identifier: Apache-2.0 */
/* Implements doctor/facts.h: tables of all facts, by which a record is parsed and written. */
#include "doctor/facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define FACTS_HEAD "oriel-doctor "
#define FACTS_NAME 32 /* the longest name with its index */

enum fact_kind { FACT_TEXT, FACT_NUMBER, FACT_FLAG };

struct fact_field {
	const char *name;
	enum fact_kind kind;
	size_t offset; /* in its struct */
};

#define TEXT(name, of, member)                               \
	{                                                    \
		name, FACT_TEXT, offsetof(struct of, member) \
	}
#define NUMBER(name, of, member)                               \
	{                                                      \
		name, FACT_NUMBER, offsetof(struct of, member) \
	}
#define FLAG(name, of, member)                               \
	{                                                    \
		name, FACT_FLAG, offsetof(struct of, member) \
	}
#define FIELDS(table) (sizeof(table) / sizeof((table)[0]))

static const struct fact_field machine_fields[] = {
	TEXT("kernel", ori_facts, kernel),
	TEXT("arch", ori_facts, arch),
	FLAG("container", ori_facts, container),
	FLAG("memfd", ori_facts, memfd),
	FLAG("sockets", ori_facts, sockets),
	NUMBER("files", ori_facts, files),
	NUMBER("files.most", ori_facts, files_most),
	NUMBER("memlock", ori_facts, memlock),
	FLAG("memlock.exempt", ori_facts, memlock_exempt),
	NUMBER("shm", ori_facts, shm),
	NUMBER("ptrace", ori_facts, ptrace),
	FLAG("allows.mapped", ori_facts, allows_mapped),
	FLAG("allows.rdma", ori_facts, allows_rdma),
	FLAG("allows.soft", ori_facts, allows_soft),
	FLAG("allows.nic", ori_facts, allows_nic),
	FLAG("allows.fabric", ori_facts, allows_fabric),
	FLAG("built.gpu", ori_facts, built_gpu),
	FLAG("built.fabric", ori_facts, built_fabric),
	FLAG("built.t3", ori_facts, built_t3),
	FLAG("built.posted", ori_facts, built_posted),
	NUMBER("bus.gpus", ori_facts, bus_gpus),
	NUMBER("bus.nics", ori_facts, bus_nics),
	NUMBER("nics", ori_facts, nics),
	FLAG("cuda", ori_facts, cuda),
	NUMBER("cuda.version", ori_facts, cuda_version),
	NUMBER("cuda.result", ori_facts, cuda_result),
	TEXT("nvidia", ori_facts, nvidia),
	FLAG("nvidia.open", ori_facts, nvidia_open),
	FLAG("nvidia.override", ori_facts, nvidia_override),
	FLAG("nvidia.streamops", ori_facts, nvidia_streamops),
	FLAG("peermem", ori_facts, peermem),
	FLAG("imex", ori_facts, imex),
	NUMBER("imex.channels", ori_facts, imex_channels),
	FLAG("verbs", ori_facts, verbs),
	FLAG("mlx5", ori_facts, mlx5),
	NUMBER("cqe.size", ori_facts, cqe_size),
	FLAG("cqe.compressed", ori_facts, cqe_compressed),
};

static const struct fact_field gpu_fields[] = {
	TEXT("pci", ori_facts_gpu, pci),
	TEXT("name", ori_facts_gpu, name),
	NUMBER("numa", ori_facts_gpu, numa),
	NUMBER("capability", ori_facts_gpu, capability),
	FLAG("descriptors", ori_facts_gpu, descriptors),
	TEXT("reach", ori_facts_gpu, reach),
	TEXT("fabric", ori_facts_gpu, fabric),
	FLAG("fabric.handles", ori_facts_gpu, fabric_handles),
	FLAG("cluster", ori_facts_gpu, cluster),
	FLAG("rdma", ori_facts_gpu, rdma),
	FLAG("rdma.vmm", ori_facts_gpu, rdma_vmm),
	FLAG("dmabuf", ori_facts_gpu, dmabuf),
	FLAG("words", ori_facts_gpu, stream_memops),
	FLAG("acs", ori_facts_gpu, acs),
	TEXT("iommu", ori_facts_gpu, iommu),
};

static const struct fact_field nic_fields[] = {
	TEXT("name", ori_facts_nic, name),         TEXT("driver", ori_facts_nic, driver),
	TEXT("pci", ori_facts_nic, pci),           NUMBER("numa", ori_facts_nic, numa),
	TEXT("port", ori_facts_nic, port),         TEXT("link", ori_facts_nic, link),
	TEXT("net", ori_facts_nic, net),           NUMBER("mtu", ori_facts_nic, mtu),
	NUMBER("mtu.net", ori_facts_nic, mtu_net), NUMBER("gid.v1", ori_facts_nic, gid_v1),
	NUMBER("gid.v2", ori_facts_nic, gid_v2),   NUMBER("pfc", ori_facts_nic, pfc),
	FLAG("opens", ori_facts_nic, opens),       FLAG("pins", ori_facts_nic, pins),
	FLAG("atomics", ori_facts_nic, atomics),   FLAG("dmabuf", ori_facts_nic, dmabuf),
	FLAG("devx", ori_facts_nic, devx),         FLAG("doorbell", ori_facts_nic, doorbell),
	FLAG("umem", ori_facts_nic, umem),         FLAG("acs", ori_facts_nic, acs),
	TEXT("iommu", ori_facts_nic, iommu),       TEXT("subnet", ori_facts_nic, subnet),
	FLAG("lid", ori_facts_nic, lid),           FLAG("sm", ori_facts_nic, sm),
};

/* The fields of one struct of a record. */
struct facts_part {
	const struct fact_field *fields;
	size_t count;
	char *at;
	char prefix[16]; /* "gpu.3." */
};

static struct facts_part part_of_machine(struct ori_facts *facts)
{
	return (struct facts_part){machine_fields, FIELDS(machine_fields), (char *)facts, ""};
}

static struct facts_part part_of_gpu(struct ori_facts *facts, unsigned i)
{
	struct facts_part part = {gpu_fields, FIELDS(gpu_fields), (char *)&facts->gpu[i], ""};

	snprintf(part.prefix, sizeof(part.prefix), "gpu.%u.", i);
	return part;
}

static struct facts_part part_of_nic(struct ori_facts *facts, unsigned i)
{
	struct facts_part part = {nic_fields, FIELDS(nic_fields), (char *)&facts->nic[i], ""};

	snprintf(part.prefix, sizeof(part.prefix), "nic.%u.", i);
	return part;
}

static bool is_printable(char c)
{
	return c >= ' ' && c <= '~';
}

void ori_fact_set(ori_fact_text *fact, const char *text)
{
	size_t length = 0;

	for (; *text && length + 1 < sizeof(*fact); text++)
		if (is_printable(*text) && (length > 0 || *text != ' '))
			(*fact)[length++] = *text;
	while (length > 0 && (*fact)[length - 1] == ' ')
		length--;
	(*fact)[length] = '\0';
}

static void part_clear(const struct facts_part *part)
{
	const int64_t unknown = ORI_FACT_UNKNOWN;

	for (size_t i = 0; i < part->count; i++) {
		char *at = part->at + part->fields[i].offset;

		if (part->fields[i].kind == FACT_TEXT)
			memset(at, 0, sizeof(ori_fact_text));
		else
			memcpy(at, &unknown, sizeof(unknown));
	}
}

void ori_facts_clear(struct ori_facts *facts)
{
	struct facts_part part = part_of_machine(facts);

	memset(facts, 0, sizeof(*facts));
	part_clear(&part);
	for (unsigned i = 0; i < ORI_FACTS_GPUS; i++) {
		part = part_of_gpu(facts, i);
		part_clear(&part);
	}
	for (unsigned i = 0; i < ORI_FACTS_NICS; i++) {
		part = part_of_nic(facts, i);
		part_clear(&part);
	}
}

/* The rest of the text to parse. */
struct facts_reader {
	const char *at, *end;
	unsigned line;
};

struct facts_word {
	const char *at;
	size_t length;
};

static bool word_is(struct facts_word word, const char *text)
{
	return strlen(text) == word.length && memcmp(word.at, text, word.length) == 0;
}

/* Decimal, without leading zeroes, so that each number has one text. */
static bool word_number(struct facts_word word, int64_t *value)
{
	int64_t sum = 0;

	if (word.length == 0 || (word.at[0] == '0' && word.length > 1))
		return false;
	for (size_t i = 0; i < word.length; i++) {
		int digit = word.at[i] - '0';

		if (digit < 0 || digit > 9 || __builtin_mul_overflow(sum, 10, &sum) ||
		    __builtin_add_overflow(sum, digit, &sum))
			return false;
	}
	*value = sum;
	return sum != ORI_FACT_UNLIMITED;
}

static bool field_read_number(const struct fact_field *field, struct facts_word value, char *at)
{
	int64_t number;

	if (field->kind == FACT_NUMBER && word_is(value, "unlimited"))
		number = ORI_FACT_UNLIMITED;
	else if (field->kind == FACT_FLAG && word_is(value, "yes"))
		number = ORI_FACT_YES;
	else if (field->kind == FACT_FLAG && word_is(value, "no"))
		number = ORI_FACT_NO;
	else if (field->kind == FACT_FLAG || !word_number(value, &number))
		return false;
	memcpy(at, &number, sizeof(number));
	return true;
}

static bool field_read_text(struct facts_word value, char *at)
{
	if (value.length == 0 || value.length >= sizeof(ori_fact_text) || value.at[0] == ' ' ||
	    value.at[value.length - 1] == ' ')
		return false;
	for (size_t i = 0; i < value.length; i++)
		if (!is_printable(value.at[i]))
			return false;
	memcpy(at, value.at, value.length);
	return true;
}

/* Unknown is -1 for numbers and flags, and "" for texts. */
static bool field_is_known(const struct fact_field *field, const char *at)
{
	int64_t number;

	if (field->kind == FACT_TEXT)
		return *at != '\0';
	memcpy(&number, at, sizeof(number));
	return number != ORI_FACT_UNKNOWN;
}

static enum oriel_status part_read(const struct facts_part *part, unsigned line,
				   struct facts_word name, struct facts_word value)
{
	static const char *const may_be[] = {"a text of 1 to 63 printable characters",
					     "a number or unlimited", "yes or no"};
	const struct fact_field *field = part->fields;
	char *at;

	while (field < part->fields + part->count && !word_is(name, field->name))
		field++;
	if (field == part->fields + part->count)
		return ori_fail(ORIEL_ERR_PROTOCOL, "line %u: unknown fact '%s%.*s'", line,
				part->prefix, (int)(name.length < FACTS_NAME ? name.length : 0),
				name.at);
	at = part->at + field->offset;
	if (field_is_known(field, at))
		return ori_fail(ORIEL_ERR_PROTOCOL, "line %u: %s%s appears twice", line,
				part->prefix, field->name);
	if (field->kind == FACT_TEXT ? field_read_text(value, at)
				     : field_read_number(field, value, at))
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_PROTOCOL, "line %u: %s%s must be %s", line, part->prefix,
			field->name, may_be[field->kind]);
}

/*
 * "gpu.3.pci" with @kind "gpu." yields index 3 and leaves "pci". False: @name is of another kind.
 */
static bool name_take_index(struct facts_word *name, const char *kind, int64_t *index)
{
	struct facts_word rest = {name->at + strlen(kind), 0}, digits;
	const char *dot;

	if (name->length <= strlen(kind) || memcmp(name->at, kind, strlen(kind)) != 0)
		return false;
	rest.length = name->length - strlen(kind);
	dot = memchr(rest.at, '.', rest.length);
	if (!dot)
		return false;
	digits = (struct facts_word){rest.at, (size_t)(dot - rest.at)};
	if (!word_number(digits, index))
		return false;
	name->length = rest.length - digits.length - 1;
	name->at = dot + 1;
	return true;
}

static enum oriel_status facts_read(struct ori_facts *facts, unsigned line, struct facts_word name,
				    struct facts_word value)
{
	struct facts_part part = part_of_machine(facts);
	int64_t index;

	if (name_take_index(&name, "gpu.", &index)) {
		if (index >= ORI_FACTS_GPUS)
			return ori_fail(ORIEL_ERR_PROTOCOL,
					"line %u: GPU %" PRId64 ", but a record has %u at most",
					line, index, ORI_FACTS_GPUS);
		part = part_of_gpu(facts, (unsigned)index);
		if (facts->gpu_count <= (unsigned)index)
			facts->gpu_count = (unsigned)index + 1;
	} else if (name_take_index(&name, "nic.", &index)) {
		if (index >= ORI_FACTS_NICS)
			return ori_fail(ORIEL_ERR_PROTOCOL,
					"line %u: NIC %" PRId64 ", but a record has %u at most",
					line, index, ORI_FACTS_NICS);
		part = part_of_nic(facts, (unsigned)index);
		if (facts->nic_count <= (unsigned)index)
			facts->nic_count = (unsigned)index + 1;
	}
	return part_read(&part, line, name, value);
}

/* Advance to the next line that is neither blank nor a comment. */
static bool reader_next(struct facts_reader *reader, struct facts_word *line)
{
	while (reader->at < reader->end) {
		const char *from = reader->at;
		const char *stop = memchr(from, '\n', (size_t)(reader->end - from));

		*line = (struct facts_word){from, (size_t)((stop ? stop : reader->end) - from)};
		reader->at = stop ? stop + 1 : reader->end;
		reader->line++;
		if (line->length > 0 && from[0] != '#')
			return true;
	}
	return false;
}

static enum oriel_status facts_read_head(struct facts_reader *reader)
{
	const size_t head = strlen(FACTS_HEAD);
	struct facts_word line;
	int64_t version;

	if (!reader_next(reader, &line) || line.length <= head ||
	    memcmp(line.at, FACTS_HEAD, head) != 0)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"no record of a machine: it does not begin with '" FACTS_HEAD "%u'",
				ORI_FACTS_VERSION);
	line = (struct facts_word){line.at + head, line.length - head};
	if (!word_number(line, &version) || version != ORI_FACTS_VERSION)
		return ori_fail(ORIEL_ERR_VERSION,
				"line %u: a record of version %.*s, this library reads %u",
				reader->line, (int)(line.length < FACTS_NAME ? line.length : 0),
				line.at, ORI_FACTS_VERSION);
	return ORIEL_OK;
}

enum oriel_status ori_facts_parse(const char *text, size_t length, struct ori_facts *facts)
{
	struct facts_reader reader = {text, text + length, 0};
	enum oriel_status status = facts_read_head(&reader);
	struct facts_word line, value;
	const char *space;

	ori_facts_clear(facts);
	while (status == ORIEL_OK && reader_next(&reader, &line)) {
		space = memchr(line.at, ' ', line.length);
		if (!space)
			return ori_fail(ORIEL_ERR_PROTOCOL, "line %u: a name without a value",
					reader.line);
		value.at = space + 1;
		value.length = line.length - (size_t)(value.at - line.at);
		line.length = (size_t)(space - line.at);
		status = facts_read(facts, reader.line, line, value);
	}
	return status;
}

struct facts_writer {
	char *buffer;
	size_t room, used;
};

static void write_line(struct facts_writer *writer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void write_line(struct facts_writer *writer, const char *format, ...)
{
	size_t used = writer->used < writer->room ? writer->used : writer->room;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(writer->room ? writer->buffer + used : NULL, writer->room - used, format,
			   args);
	va_end(args);
	writer->used += (size_t)length;
}

static void part_write(const struct facts_part *part, struct facts_writer *writer)
{
	const struct fact_field *field;

	for (field = part->fields; field < part->fields + part->count; field++) {
		const char *at = part->at + field->offset;
		int64_t number;

		if (!field_is_known(field, at))
			continue;
		memcpy(&number, at, sizeof(number));
		if (field->kind == FACT_TEXT)
			write_line(writer, "%s%s %s\n", part->prefix, field->name, at);
		else if (field->kind == FACT_FLAG)
			write_line(writer, "%s%s %s\n", part->prefix, field->name,
				   number ? "yes" : "no");
		else if (number == ORI_FACT_UNLIMITED)
			write_line(writer, "%s%s unlimited\n", part->prefix, field->name);
		else
			write_line(writer, "%s%s %" PRId64 "\n", part->prefix, field->name, number);
	}
}

size_t ori_facts_write(const struct ori_facts *facts, char *buffer, size_t length)
{
	struct ori_facts *unchanged = (struct ori_facts *)(uintptr_t)facts;
	struct facts_writer writer = {buffer, length, 0};
	struct facts_part part = part_of_machine(unchanged);

	write_line(&writer, FACTS_HEAD "%u\n", ORI_FACTS_VERSION);
	part_write(&part, &writer);
	for (unsigned i = 0; i < facts->gpu_count; i++) {
		part = part_of_gpu(unchanged, i);
		part_write(&part, &writer);
	}
	for (unsigned i = 0; i < facts->nic_count; i++) {
		part = part_of_nic(unchanged, i);
		part_write(&part, &writer);
	}
	return writer.used;
}
