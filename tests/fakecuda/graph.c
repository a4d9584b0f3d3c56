/* SPDX-License-Identifier: Apache-2.0 */
/* Captured streams, graphs, and what they hold. */
#include <stdlib.h>

#include "stream.h"

struct CUgraph_st {
	struct fake_graph graph;
};

struct CUgraphExec_st {
	struct fake_graph *graph;
};

struct CUuserObject_st {
	void *object;
	CUhostFn drop;
	struct CUuserObject_st *next;
};

static atomic_uint dropped;

unsigned fakecuda_dropped(void)
{
	return atomic_load(&dropped);
}

void fake_graph_add(struct fake_graph *graph, const struct fake_op *op)
{
	struct fake_op *own = malloc(sizeof(*own));

	if (!own)
		abort();
	*own = *op;
	own->next = NULL;
	*graph->last = own;
	graph->last = &own->next;
}

/*
 * The thread that drops the last reference stands for the driver's thread, which may not call
 * the driver.
 */
void fake_graph_drop(struct fake_graph *graph)
{
	struct CUuserObject_st *held;
	struct fake_op *op;

	if (atomic_fetch_sub(&graph->refs, 1) != 1)
		return;
	while (graph->first) {
		op = graph->first;
		graph->first = op->next;
		free(op);
	}
	fake_forbid_calls(true);
	while (graph->held) {
		held = graph->held;
		graph->held = held->next;
		held->drop(held->object);
		atomic_fetch_add(&dropped, 1);
		free(held);
		fake_count(-1);
	}
	fake_forbid_calls(false);
	free(graph);
	fake_count(-1);
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
	struct CUgraph_st *g = calloc(1, sizeof(*g));

	(void)mode;
	if (!g || stream == CU_STREAM_LEGACY || stream->capture) {
		free(g);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	atomic_store(&g->graph.refs, 1);
	g->graph.last = &g->graph.first;
	g->graph.begun = stream;
	stream->capture = &g->graph;
	fake_count(1);
	return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	if (!stream->capture || stream->capture->begun != stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	*graph = (CUgraph)stream->capture;
	stream->capture = NULL;
	return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	stream = fake_stream(stream);
	*status = stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
				CUgraph *graph, const CUgraphNode **nodes,
				const CUgraphEdgeData **edges, size_t *count)
#else
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
				CUgraph *graph, const CUgraphNode **nodes, size_t *count)
#endif
{
#if CUDA_VERSION >= 13000
	if (edges)
		return CUDA_ERROR_NOT_SUPPORTED;
#endif
	if (id || nodes || count)
		return CUDA_ERROR_NOT_SUPPORTED;
	*graph = (CUgraph)fake_stream(stream)->capture;
	return cuStreamIsCapturing(stream, status);
}

CUresult cuUserObjectCreate(CUuserObject *object, void *of, CUhostFn drop, unsigned refs,
			    unsigned flags)
{
	struct CUuserObject_st *held;

	if (refs != 1 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC ||
	    fake_fails("cuUserObjectCreate"))
		return CUDA_ERROR_INVALID_VALUE;
	held = calloc(1, sizeof(*held));
	if (!held)
		return CUDA_ERROR_OUT_OF_MEMORY;
	held->object = of;
	held->drop = drop;
	fake_count(1);
	*object = held;
	return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
	if (count != 1 || flags != CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	object->next = graph->graph.held;
	graph->graph.held = object;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	(void)flags;
	fake_wait_device(fake_current());
	*exec = malloc(sizeof(**exec));
	if (!*exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*exec)->graph = &graph->graph;
	atomic_fetch_add(&graph->graph.refs, 1);
	fake_count(1);
	return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	struct fake_op end = {.kind = FAKE_RELEASE, .graph = exec->graph}, *op;
	CUresult result = CUDA_SUCCESS;

	stream = fake_stream(stream);
	if (stream->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	atomic_fetch_add(&exec->graph->refs, 1);
	for (op = exec->graph->first; op && result == CUDA_SUCCESS; op = op->next)
		result = fake_post(stream, op);
	return result == CUDA_SUCCESS ? fake_post(stream, &end) : result;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	fake_wait_device(fake_current());
	fake_graph_drop(exec->graph);
	free(exec);
	fake_count(-1);
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	fake_graph_drop(&graph->graph);
	return CUDA_SUCCESS;
}
