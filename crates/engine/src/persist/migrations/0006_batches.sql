-- Batch operations. The record is rewritten as the batch proceeds, the request is not.
CREATE TABLE engine_batches (
    namespace TEXT NOT NULL,
    job_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    start_time INTEGER NOT NULL,
    close_time INTEGER,
    -- temporal.api.workflowservice.v1.StartBatchOperationRequest
    request BLOB NOT NULL,
    -- Batch, without the request
    record BLOB NOT NULL,
    PRIMARY KEY (namespace, job_id)
) STRICT, WITHOUT ROWID;
