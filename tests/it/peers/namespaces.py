"""The same requests about namespaces and search attributes to two servers: replies and errors must be equal.

Arguments: address of the real server, address of the engine. The first server is right.
"""

import asyncio
import os
import re
import sys
import uuid

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from temporalio.api.namespace.v1 import NamespaceConfig, UpdateNamespaceInfo
from temporalio.api.operatorservice.v1 import *
from temporalio.api.replication.v1 import ClusterReplicationConfig, NamespaceReplicationConfig
from temporalio.api.workflowservice.v1 import *
from temporalio.client import Client
from temporalio.service import RPCError

# What differs between any two servers, what the engine says of itself, and how the real server stores attributes.
VARIES = {"capabilities", "limits", "id", "customSearchAttributeAliases", "activeClusterName", "clusters", "createTime"}
UUID = re.compile(r"-deleted-[0-9a-f]{5}")


def without(value, names):
    if isinstance(value, dict):
        return {key: without(item, names) for key, item in value.items() if key not in names}
    return [without(item, names) for item in value] if isinstance(value, list) else value


def days(count):
    return Duration(seconds=int(count * 86400))


def requests(n):
    def register(namespace=n, retention=2, **fields):
        return RegisterNamespaceRequest(
            namespace=namespace, workflow_execution_retention_period=days(retention), **fields)

    def update(**fields):
        return UpdateNamespaceRequest(namespace=n, **fields)

    def add(name, kind, namespace=n):
        return AddSearchAttributesRequest(namespace=namespace, search_attributes={name: kind})

    def remove(*names, namespace=n):
        return RemoveSearchAttributesRequest(namespace=namespace, search_attributes=names)

    cluster = lambda name: ClusterReplicationConfig(cluster_name=name)
    yield from [
        register(""), register(retention=0), register(retention=0.04), register("x" * 1001),
        register(is_global_namespace=True), register(active_cluster_name="other"), register(clusters=[cluster("x")]),
        register(description="d", owner_email="o", data={"a": "b"}, history_archival_state=2,
                 history_archival_uri="file:///tmp/nowhere"),
        register(), DescribeNamespaceRequest(namespace=n), DescribeNamespaceRequest(),
        DescribeNamespaceRequest(namespace="not there"), update(),
        update(update_info=UpdateNamespaceInfo(description="dd", data={"c": "d"})),
        update(config=NamespaceConfig(workflow_execution_retention_ttl=days(0.01))),
        update(config=NamespaceConfig(workflow_execution_retention_ttl=days(-3))),
        update(config=NamespaceConfig(workflow_execution_retention_ttl=days(3))),
        update(config=NamespaceConfig(history_archival_state=2, history_archival_uri="file:///tmp/nowhere")),
        update(replication_config=NamespaceReplicationConfig(active_cluster_name="other")),
        update(replication_config=NamespaceReplicationConfig(clusters=[cluster("x")])),
        update(replication_config=NamespaceReplicationConfig(state=2)), update(promote_namespace=True),
        update(delete_bad_binary="y"), update(update_info=UpdateNamespaceInfo(state=1)), UpdateNamespaceRequest(),
        UpdateNamespaceRequest(namespace="not there"),
        ListArchivedWorkflowExecutionsRequest(namespace="not there"),
        ListArchivedWorkflowExecutionsRequest(namespace="default"),
        ListArchivedWorkflowExecutionsRequest(namespace="default", page_size=10001),
        add("WorkflowId", 2), add("BuildIds", 2), add("TemporalMine", 2), add("Foo", 0), add("Foo", 99),
        add("Foo", 2, ""), add("Foo", 2, "not there"), AddSearchAttributesRequest(namespace=n),
        add("Mine", 2), add("Mine", 2), add("Mine", 3), ListSearchAttributesRequest(namespace=n),
        ListSearchAttributesRequest(), remove(), remove("Unknown"), remove("WorkflowId"), remove("Mine", "Unknown"),
        remove("Mine", namespace=""), ListSearchAttributesRequest(namespace=n),
        DeprecateNamespaceRequest(), DeprecateNamespaceRequest(namespace="not there"),
        DeprecateNamespaceRequest(namespace=n), DescribeNamespaceRequest(namespace=n),
        update(update_info=UpdateNamespaceInfo(state=1)), DeleteNamespaceRequest(),
        DeleteNamespaceRequest(namespace=n, namespace_id="x"), DeleteNamespaceRequest(namespace="not there"),
        DeleteNamespaceRequest(namespace=n), DescribeNamespaceRequest(namespace=n),
        ListWorkflowExecutionsRequest(namespace=n), StartWorkflowExecutionRequest(namespace=n, workflow_id="w"),
    ]


async def ask(client, request):
    method = re.sub(r"(?<!^)([A-Z])", r"_\1", type(request).__name__.removesuffix("Request")).lower()
    service = client.operator_service if hasattr(client.operator_service, method) else client.workflow_service
    async with asyncio.timeout(60):
        while True:
            try:
                return {"reply": without(MessageToDict(await getattr(service, method)(request)), VARIES)}
            except RPCError as error:
                details = [detail.type_url for detail in error.grpc_status.details]
                return {"code": int(error.status), "message": error.message, "details": details}


async def main():
    real, engine = [await Client.connect(address) for address in sys.argv[1:3]]
    name, different, count = f"namespaces-{uuid.uuid4()}", 0, 0
    for request in requests(name):
        right = await ask(real, request)
        if isinstance(request, (AddSearchAttributesRequest, ListSearchAttributesRequest, RemoveSearchAttributesRequest)):
            # All parts of the real server know a new namespace, or a change of one, only after a moment.
            async with asyncio.timeout(60):
                while right.get("code") == 5 and request.namespace == name:
                    await asyncio.sleep(0.05)
                    right = await ask(real, request)
        answer = await ask(engine, request)
        if isinstance(request, ListSearchAttributesRequest) and right != answer:
            async with asyncio.timeout(60):
                while right != answer:
                    await asyncio.sleep(0.05)
                    right = await ask(real, request)
        if isinstance(request, (ListWorkflowExecutionsRequest, StartWorkflowExecutionRequest)):
            async with asyncio.timeout(60):
                while right.get("code") != 5:
                    await asyncio.sleep(0.05)
                    right = await ask(real, request)
        count += 1
        if UUID.sub("", str(right)) != UUID.sub("", str(answer)) and right != answer:
            different += 1
            print(f"{type(request).__name__} {MessageToDict(request)}\n  server {right}\n  engine {answer}", flush=True)
    print(f"{different} of {count} answers differ", flush=True)
    # The SDK may crash in the end of the interpreter.
    os._exit(1 if different else 0)


asyncio.run(main())
