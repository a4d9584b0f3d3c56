/* SPDX-License-Identifier: Apache-2.0 */
/* Export and import in one process, in two processes, and over a fake GPU. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/count_fds.h"
#include "mem/gpu_mapping.h"
#include "net/socket_test.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static struct ori_mem *alloc(size_t length)
{
	struct ori_mem *mem;

	assert_int_equal(ori_mem_alloc(length, 0, &mem), ORIEL_OK);
	return mem;
}

static struct ori_mem_blob export_part(const struct ori_mem *mem, uint64_t offset, size_t length)
{
	struct ori_mem_blob blob;

	assert_int_equal(ori_mem_export(mem, offset, length, &blob), ORIEL_OK);
	return blob;
}

static void test_a_thread_gets_the_address_and_a_reference(void **state)
{
	struct ori_mem *mem = alloc(2 * PAGE);
	struct ori_mem_blob blob = export_part(mem, 100, PAGE);
	struct ori_mapping m;

	(void)state;
	assert_true(ori_mem_blob_is_local(&blob));
	assert_int_equal(ori_mem_import(&blob, -1, &m), ORIEL_OK);
	assert_ptr_equal(m.address, mem->address + 100);
	assert_int_equal(m.length, PAGE);
	assert_null(m.base);
	ori_mem_unref(mem);
	memset(m.address, 1, m.length);
	ori_mapping_close(&m);
	ori_mapping_close(&m);
	assert_int_equal(ori_mem_count(), 0);
	assert_int_equal(ori_mem_import(&blob, -1, &m), ORIEL_ERR_PROTOCOL);
	assert_non_null(strstr(oriel_last_error(), "is not allocated"));
}

static void test_private_memory_is_for_this_process_only(void **state)
{
	struct ori_mem_blob blob;
	struct ori_mapping m;
	char here[100];
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(ori_mem_export_private(here, sizeof(here), &blob), ORIEL_OK);
	assert_int_equal(ori_mem_import(&blob, -1, &m), ORIEL_OK);
	assert_ptr_equal(m.address, here);
	assert_int_equal(m.length, sizeof(here));
	ori_mapping_close(&m);

	assert_int_equal(ori_mem_import(&blob, fd, &m), ORIEL_ERR_PROTOCOL);
	blob.token ^= 2;
	assert_int_equal(ori_mem_import(&blob, -1, &m), ORIEL_ERR_PROTOCOL);
	assert_non_null(strstr(oriel_last_error(), "another process"));
	assert_int_equal(ori_mem_export_private(NULL, 1, &blob), ORIEL_ERR_INVALID);
	assert_int_equal(ori_mem_export_private(here, 0, &blob), ORIEL_ERR_INVALID);
	assert_int_equal(ori_mem_export_private(here, SIZE_MAX, &blob), ORIEL_ERR_INVALID);
	close(fd);
}

static void test_a_part_outside_its_memory_is_rejected(void **state)
{
	struct ori_mem *mem = alloc(PAGE);
	struct ori_mem_blob blob;
	struct ori_mapping m;

	(void)state;
	assert_int_equal(ori_mem_export(mem, 0, 0, &blob), ORIEL_ERR_RANGE);
	assert_int_equal(ori_mem_export(mem, 1, PAGE, &blob), ORIEL_ERR_RANGE);
	assert_int_equal(ori_mem_export(mem, PAGE + 1, 1, &blob), ORIEL_ERR_RANGE);
	assert_int_equal(ori_mem_export(mem, UINT64_MAX, 2, &blob), ORIEL_ERR_RANGE);
	blob = export_part(mem, 0, PAGE);
	blob.length = PAGE + 1;
	assert_int_equal(ori_mem_import(&blob, -1, &m), ORIEL_ERR_PROTOCOL);
	assert_int_equal(ori_mem_import(&blob, mem->fd, &m), ORIEL_ERR_PROTOCOL);
	ori_mem_unref(mem);
	assert_int_equal(ori_mem_count(), 0);
}

/* Runs in a child: receive memory from @sock, check it, write a reply into it. */
static int import_and_answer(int sock)
{
	struct ori_mem_blob blob;
	struct ori_mapping m;
	struct ori_fds fds = {.count = 0};

	if (socket_recv(sock, &blob, sizeof(blob), &fds) != ORIEL_OK)
		return 1;
	if (fds.count != 1 || ori_mem_blob_is_local(&blob))
		return 2;
	if (ori_mem_import(&blob, -1, &m) != ORIEL_ERR_PROTOCOL)
		return 3;
	if (ori_mem_import(&blob, fds.of[0], &m) != ORIEL_OK)
		return 4;
	if (ftruncate(fds.of[0], 0) == 0)
		return 5;
	ori_fds_close(&fds);
	if (strcmp(m.address, "question") != 0)
		return 6;
	strcpy(m.address, "answer");
	ori_mapping_close(&m);
	return 0;
}

static void check_in_another_process(const struct ori_mem *mem, uint64_t offset)
{
	struct ori_mem_blob blob = export_part(mem, offset, PAGE);
	int pair[2], status;
	pid_t pid;

	strcpy(mem->address + offset, "question");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	pid = fork();
	if (pid == 0)
		_exit(import_and_answer(pair[1]));
	assert_true(socket_send(pair[0], &blob, sizeof(blob), &mem->fd, 1));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_string_equal(mem->address + offset, "answer");
	close(pair[0]);
	close(pair[1]);
}

static void test_another_process_sees_the_same_bytes_at_any_offset(void **state)
{
	unsigned before = count_fds();
	struct ori_mem *mem = alloc(4 * PAGE);

	(void)state;
	check_in_another_process(mem, 0);
	check_in_another_process(mem, PAGE + 13);
	check_in_another_process(mem, 3 * PAGE);
	ori_mem_unref(mem);
	assert_int_equal(count_fds(), before);
}

static void test_memory_of_the_caller_keeps_its_offset_in_the_file(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ori_mem *mem;
	uint64_t offset;
	char *a;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)(8 * PAGE)), 0);
	a = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(2 * PAGE));
	assert_int_equal(oriel_memory_take_fd(a + 64, 3 * PAGE, fd, 2 * PAGE + 64), ORIEL_OK);
	assert_int_equal(ori_mem_find(a + 100, PAGE, &mem, &offset), ORIEL_OK);
	check_in_another_process(mem, offset);
	ori_mem_unref(mem);
	oriel_memory_release(a + 64);
	munmap(a, 4 * PAGE);
}

static void test_huge_pages_are_the_same_bytes_elsewhere(void **state)
{
	struct ori_mem *mem;

	(void)state;
	if (ori_mem_alloc(PAGE * 1024, ORIEL_MEMORY_HUGE, &mem) != ORIEL_OK)
		skip();
	check_in_another_process(mem, 17 * PAGE + 5);
	ori_mem_unref(mem);
}

static void test_a_wrong_descriptor_is_rejected(void **state)
{
	int bare = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int small = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct ori_mem *mem = alloc(2 * PAGE);
	struct ori_mem_blob blob = export_part(mem, PAGE, PAGE);
	struct ori_mapping m = {.length = 77};
	unsigned before = count_fds();

	(void)state;
	assert_int_equal(ftruncate(bare, (off_t)(2 * PAGE)), 0);
	assert_int_equal(ftruncate(small, (off_t)PAGE), 0);
	assert_int_equal(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(ori_mem_import(&blob, bare, &m), ORIEL_ERR_PROTOCOL);
	assert_int_equal(ori_mem_import(&blob, small, &m), ORIEL_ERR_PROTOCOL);
	assert_int_equal(ori_mem_import(&blob, null, &m), ORIEL_ERR_PROTOCOL);
	assert_int_equal(m.length, 77);
	assert_int_equal(count_fds(), before);
	ori_mem_unref(mem);
	close(bare);
	close(small);
	close(null);
}

static void expect_rejected(struct ori_mem_blob blob, enum oriel_status status)
{
	struct ori_mem_blob out = {.length = 77};

	assert_int_equal(ori_mem_blob_parse(&blob, sizeof(blob), &out), status);
	assert_int_equal(out.length, 77);
}

#define FIELD(f) offsetof(struct ori_mem_blob, f), sizeof(((struct ori_mem_blob *)0)->f)

static void test_each_bad_field_is_rejected(void **state)
{
	static const struct {
		size_t at, width;
		uint64_t value;
		enum oriel_status status;
	} table[] = {
		{FIELD(version), 1, ORIEL_ERR_VERSION},
		{FIELD(blob_length), 63, ORIEL_ERR_VERSION},
		{FIELD(kind), 0, ORIEL_ERR_PROTOCOL},
		{FIELD(kind), 5, ORIEL_ERR_PROTOCOL},
		{FIELD(kind), ORI_MEM_BLOB_GPU_FILES, ORIEL_ERR_PROTOCOL},
		{FIELD(kind), ORI_MEM_BLOB_GPU_HANDLE, ORIEL_ERR_PROTOCOL},
		{FIELD(kind), ORI_MEM_BLOB_PRIVATE, ORIEL_ERR_PROTOCOL},
		{FIELD(flags), 2, ORIEL_ERR_PROTOCOL},
		{FIELD(token), 0, ORIEL_ERR_PROTOCOL},
		{FIELD(id), 0, ORIEL_ERR_PROTOCOL},
		{FIELD(length), 0, ORIEL_ERR_PROTOCOL},
		{FIELD(length), UINT64_MAX, ORIEL_ERR_PROTOCOL},
		{FIELD(length), INT64_MAX, ORIEL_ERR_PROTOCOL},
		{FIELD(address), 0, ORIEL_ERR_PROTOCOL},
		{FIELD(address), UINT64_MAX, ORIEL_ERR_PROTOCOL},
		{FIELD(mem_offset), UINT64_MAX, ORIEL_ERR_PROTOCOL},
		{FIELD(fd_offset), UINT64_MAX, ORIEL_ERR_PROTOCOL},
		{FIELD(fd_offset), INT64_MAX, ORIEL_ERR_PROTOCOL},
		{FIELD(alloc_length), 1, ORIEL_ERR_PROTOCOL},
		{FIELD(segments), 1, ORIEL_ERR_PROTOCOL},
		{FIELD(reserved), 1, ORIEL_ERR_PROTOCOL},
		{offsetof(struct ori_mem_blob, handle) + 63, 1, 1, ORIEL_ERR_PROTOCOL},
	};
	struct ori_mem *mem = alloc(2 * PAGE);
	struct ori_mem_blob good = export_part(mem, PAGE, PAGE), bad;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		bad = good;
		memcpy((char *)&bad + table[i].at, &table[i].value, table[i].width);
		expect_rejected(bad, table[i].status);
	}
	assert_int_equal(ori_mem_blob_parse(&good, sizeof(good), &bad), ORIEL_OK);
	assert_memory_equal(&good, &bad, sizeof(good));
	for (size_t length = 0; length < sizeof(good); length++)
		assert_int_equal(ori_mem_blob_parse(&good, length, &bad), ORIEL_ERR_PROTOCOL);
	ori_mem_unref(mem);
}

static const struct ori_mem_blob gpu_files = {
	.version = ORI_MEM_BLOB_VERSION,
	.blob_length = sizeof(gpu_files),
	.kind = ORI_MEM_BLOB_GPU_FILES,
	.token = 1,
	.id = 2,
	.address = 0x7f0000001000,
	.mem_offset = 4096,
	.length = 4096,
	.alloc_length = 8192,
	.segments = 2,
};

static const struct ori_mem_blob gpu_handle = {
	.version = ORI_MEM_BLOB_VERSION,
	.blob_length = sizeof(gpu_handle),
	.kind = ORI_MEM_BLOB_GPU_HANDLE,
	.token = 1,
	.address = 0x7f0000001000,
	.length = 8192,
	.alloc_length = 8192,
	.handle = {1},
};

static void test_each_bad_field_of_gpu_memory_is_rejected(void **state)
{
	static const struct {
		const struct ori_mem_blob *good;
		size_t at, width;
		uint64_t value;
	} table[] = {
		{&gpu_files, FIELD(flags), ORI_MEM_BLOB_HUGE},
		{&gpu_files, FIELD(fd_offset), 1},
		{&gpu_files, FIELD(mem_offset), 4097},
		{&gpu_files, FIELD(length), 4097},
		{&gpu_files, FIELD(alloc_length), 8191},
		{&gpu_files, FIELD(alloc_length), 0},
		{&gpu_files, FIELD(alloc_length), UINT64_MAX},
		{&gpu_files, FIELD(segments), 0},
		{&gpu_files, FIELD(segments), ORI_MEM_SEGMENTS + 1},
		{&gpu_files, FIELD(segments), UINT32_MAX},
		{&gpu_files, FIELD(reserved), 1},
		{&gpu_files, offsetof(struct ori_mem_blob, handle), 1, 1},
		{&gpu_files, FIELD(kind), ORI_MEM_BLOB_FILE},
		{&gpu_files, FIELD(kind), ORI_MEM_BLOB_PRIVATE},
		{&gpu_files, FIELD(kind), ORI_MEM_BLOB_GPU_HANDLE},
		{&gpu_handle, FIELD(segments), 1},
		{&gpu_handle, FIELD(length), 8193},
		{&gpu_handle, FIELD(token), 0},
	};
	struct ori_mem_blob bad;

	(void)state;
	assert_int_equal(ori_mem_blob_parse(&gpu_files, sizeof(bad), &bad), ORIEL_OK);
	assert_int_equal(ori_mem_blob_parse(&gpu_handle, sizeof(bad), &bad), ORIEL_OK);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		bad = *table[i].good;
		memcpy((char *)&bad + table[i].at, &table[i].value, table[i].width);
		expect_rejected(bad, ORIEL_ERR_PROTOCOL);
	}
}

static void test_several_allocations_follow_a_file_of_lengths(void **state)
{
	struct ori_mem_blob blob = gpu_files;

	(void)state;
	assert_int_equal(ori_mem_blob_fds(&blob), 3);
	blob.segments = 1;
	assert_int_equal(ori_mem_blob_fds(&blob), 1);
	assert_int_equal(ori_mem_blob_fds(&gpu_handle), 0);
}

static void test_the_cpu_does_not_import_memory_of_a_gpu(void **state)
{
	struct ori_mapping m = {0};

	(void)state;
	assert_int_equal(ori_mem_import(&gpu_files, 0, &m), ORIEL_ERR_UNSUPPORTED);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_COMM_GPU"));
	assert_int_equal(ori_mem_import(&gpu_handle, -1, &m), ORIEL_ERR_UNSUPPORTED);
	assert_null(m.address);
}

/* A fake GPU that records its calls. */
static struct {
	unsigned opened, closed;
	uint64_t lengths[3];
} noted;

static char gpu_memory[8192];

static enum oriel_status note_import(const struct ori_gpu *gpu, const int *fds,
				     const uint64_t *lengths, unsigned count, void **address)
{
	(void)gpu;
	(void)fds;
	assert_true(count <= 3);
	memcpy(noted.lengths, lengths, count * sizeof(*lengths));
	noted.opened++;
	*address = gpu_memory;
	return ORIEL_OK;
}

static enum oriel_status note_open(const struct ori_gpu *gpu, const uint8_t handle[ORI_GPU_HANDLE],
				   void **address)
{
	(void)gpu;
	assert_int_equal(handle[0], 1);
	noted.opened++;
	*address = gpu_memory;
	return ORIEL_OK;
}

static enum oriel_status note_query(const struct ori_gpu *gpu, const void *address,
				    struct ori_gpu_memory_info *place)
{
	(void)gpu;
	assert_ptr_equal(address, gpu_memory);
	*place = (struct ori_gpu_memory_info){ORI_GPU_LEGACY, gpu_memory, sizeof(gpu_memory), 0, 1};
	return ORIEL_OK;
}

static void note_unmap(void *address, size_t length)
{
	assert_ptr_equal(address, gpu_memory);
	assert_int_equal(length, sizeof(gpu_memory));
	noted.closed++;
}

static void note_close(const struct ori_gpu *gpu, void *address)
{
	(void)gpu;
	assert_ptr_equal(address, gpu_memory);
	noted.closed++;
}

static const struct ori_gpu_ops note_ops = {
	.import = note_import,
	.open_handle = note_open,
	.query = note_query,
	.unmap = note_unmap,
	.close_handle = note_close,
};

static const struct ori_gpu note_gpu = {.ops = &note_ops};

/* Import two allocations with the stated lengths @a and @b. */
static enum oriel_status import_two(uint64_t a, uint64_t b, struct ori_mapping *m)
{
	const uint64_t lengths[] = {a, b};
	struct ori_mem *file = alloc(PAGE);
	int fds[3] = {file->fd, -1, -1};
	enum oriel_status status;

	memcpy(file->address, lengths, sizeof(lengths));
	status = ori_mem_import_gpu(&note_gpu, &gpu_files, fds, m);
	ori_mem_unref(file);
	return status;
}

static void test_lengths_of_allocations_add_up(void **state)
{
	struct ori_mapping m = {0};

	(void)state;
	memset(&noted, 0, sizeof(noted));
	assert_int_equal(import_two(0, 8192, &m), ORIEL_ERR_PROTOCOL);
	assert_int_equal(import_two(4096, 8192, &m), ORIEL_ERR_PROTOCOL);
	assert_int_equal(import_two(4096, 4095, &m), ORIEL_ERR_PROTOCOL);
	assert_int_equal(import_two(UINT64_MAX, 8193, &m), ORIEL_ERR_PROTOCOL);
	assert_int_equal(noted.opened, 0);
	assert_null(m.address);
	assert_int_equal(import_two(1024, 7168, &m), ORIEL_OK);
	assert_int_equal(noted.lengths[0], 1024);
	assert_int_equal(noted.lengths[1], 7168);
	assert_ptr_equal(m.address, gpu_memory + 4096);
	ori_mapping_close(&m);
	assert_int_equal(noted.closed, 1);
}

static void test_a_handle_of_a_shorter_allocation_is_rejected(void **state)
{
	struct ori_mem_blob blob = gpu_handle;
	struct ori_mapping m = {0};
	const int none = -1;

	(void)state;
	memset(&noted, 0, sizeof(noted));
	blob.alloc_length = 8193;
	assert_int_equal(ori_mem_import_gpu(&note_gpu, &blob, &none, &m), ORIEL_ERR_PROTOCOL);
	assert_int_equal(noted.opened, 1);
	assert_int_equal(noted.closed, 1);
	blob.alloc_length = 8192;
	assert_int_equal(ori_mem_import_gpu(&note_gpu, &blob, &none, &m), ORIEL_OK);
	assert_ptr_equal(m.address, gpu_memory);
	ori_mapping_close(&m);
	assert_int_equal(noted.closed, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thread_gets_the_address_and_a_reference),
		cmocka_unit_test(test_private_memory_is_for_this_process_only),
		cmocka_unit_test(test_a_part_outside_its_memory_is_rejected),
		cmocka_unit_test(test_another_process_sees_the_same_bytes_at_any_offset),
		cmocka_unit_test(test_memory_of_the_caller_keeps_its_offset_in_the_file),
		cmocka_unit_test(test_huge_pages_are_the_same_bytes_elsewhere),
		cmocka_unit_test(test_a_wrong_descriptor_is_rejected),
		cmocka_unit_test(test_each_bad_field_is_rejected),
		cmocka_unit_test(test_each_bad_field_of_gpu_memory_is_rejected),
		cmocka_unit_test(test_several_allocations_follow_a_file_of_lengths),
		cmocka_unit_test(test_the_cpu_does_not_import_memory_of_a_gpu),
		cmocka_unit_test(test_lengths_of_allocations_add_up),
		cmocka_unit_test(test_a_handle_of_a_shorter_allocation_is_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
