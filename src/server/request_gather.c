#include "server/request_gather.h"

#include "server/handlers.h"
#include "server/reply.h"

struct gather *request_gather_begin(struct conn *conn, struct request *request, gather_run_fn *run)
{
    request->gather = gather_create(conn->reactor, run, NULL);
    if (request->gather == NULL) {
        request_refuse(request, ERROR_ANSWER_MEMORY);
    }
    return request->gather;
}

void request_gather_start(struct conn *conn, struct request *request)
{
    (void)gather_start(conn->reactor, request->gather, conn->batch);
}

void request_gather_run(struct conn *conn, struct request *request, gather_run_fn *run)
{
    if (request_gather_begin(conn, request, run) != NULL) {
        request_gather_start(conn, request);
    }
}
