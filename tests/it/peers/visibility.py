"""Random visibility queries on two servers with the same runs: replies and errors must be equal.

Arguments: address of the real server, address of the engine, seed, number of queries. The first server is right.
"""

import asyncio
import os
import random
import sys
import uuid

from google.protobuf.json_format import MessageToDict
from temporalio.api.common.v1 import Memo, Payload, SearchAttributes, WorkflowExecution, WorkflowType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, RemoveSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    CountWorkflowExecutionsRequest,
    ListWorkflowExecutionsRequest,
    RegisterNamespaceRequest,
    RequestCancelWorkflowExecutionRequest,
    StartWorkflowExecutionRequest,
    TerminateWorkflowExecutionRequest,
)
from google.protobuf.duration_pb2 import Duration
from temporalio.client import Client
from temporalio.service import RPCError

KINDS = {"Kw": 2, "Tx": 1, "Num": 3, "Dbl": 4, "Bo": 5, "Dt": 6, "Kl": 7}
PATIENCE = 60.0


def payload(text):
    return Payload(metadata={"encoding": b"json/plain"}, data=text.encode())


def moment(time):
    """Always of the same length, because errors name positions."""
    return f"{time.ToDatetime():%Y-%m-%dT%H:%M:%S}.{time.nanos:09}Z"


# Each run: type, queue, attributes as JSON, and whether it is closed.
RUNS = [
    ("Alpha", "q1", {"Kw": '"a"', "Num": "1", "Dbl": "1.5", "Bo": "true", "Tx": '"hello big world"'}, False),
    ("Alpha", "q2", {"Kw": '"b"', "Num": "2", "Kl": '["a","b"]', "Tx": '"Hello, small World"'}, True),
    ("Beta", "q1", {"Kw": '"ab"', "Num": "-3", "Dbl": "2", "Bo": "false", "Kl": '["b","c d"]'}, True),
    ("Beta", "q1", {"Dt": '"2024-01-01T00:00:00Z"', "Kw": '"A"'}, False),
    ("Gamma", "q2", {"Dt": '"2025-06-01T12:00:00.5+02:00"', "Num": "100000"}, True),
    ("alpha", "q1", {}, True),
    ("Alpha", "q1", {"Kw": '"it\'s"', "Tx": '"big-small"'}, True),
    ("Alpha", "q1", {"BuildIds": '["unversioned:x"]', "TemporalScheduledById": '"s1"'}, True),
    ("Alpha", "q1", {"TemporalNamespaceDivision": '"hidden"', "Kw": '"a"'}, True),
]


class Peer:
    def __init__(self, client, namespace):
        self.client, self.namespace, self.marks = client, namespace, {}

    async def ask(self, service, method, request):
        try:
            while True:
                try:
                    return {"reply": await getattr(getattr(self.client, service), method)(request)}
                except RPCError as error:
                    # The real server limits how often lists are read.
                    if "rate limit" not in error.message:
                        raise
                    await asyncio.sleep(0.05)
        except RPCError as error:
            return {"code": int(error.status), "message": error.message.replace(self.namespace, "NAMESPACE")}

    async def prepare(self):
        retention = Duration(seconds=3 * 86400)
        await self.client.workflow_service.register_namespace(
            RegisterNamespaceRequest(namespace=self.namespace, workflow_execution_retention_period=retention)
        )
        await self.eventually(
            lambda: self.client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(namespace=self.namespace, search_attributes=KINDS)
            )
        )
        for number, (kind, queue, attributes, closed) in enumerate(RUNS):
            request = StartWorkflowExecutionRequest(
                namespace=self.namespace,
                workflow_id=f"w{number}",
                workflow_type=WorkflowType(name=kind),
                task_queue=TaskQueue(name=queue),
                request_id=str(uuid.uuid4()),
                memo=Memo(fields={"n": payload(str(number))}),
                search_attributes=SearchAttributes(
                    indexed_fields={name: payload(value) for name, value in attributes.items()}
                ),
            )
            started = await self.eventually(lambda: self.client.workflow_service.start_workflow_execution(request))
            self.marks[f"RUN{number}"] = started.run_id
        for number, (_, _, _, closed) in enumerate(RUNS):
            if closed:
                await self.client.workflow_service.terminate_workflow_execution(
                    TerminateWorkflowExecutionRequest(
                        namespace=self.namespace, workflow_execution=WorkflowExecution(workflow_id=f"w{number}")
                    )
                )
        # Lists of the real server lag behind.
        closed = sum(run[3] for run in RUNS)
        everything = "TemporalNamespaceDivision IS NULL OR TemporalNamespaceDivision IS NOT NULL"
        for query, wanted in [(f"({everything}) AND ExecutionStatus = 'Terminated'", closed), (everything, len(RUNS))]:
            async with asyncio.timeout(PATIENCE):
                while (await self.found(query)).get("count") != wanted:
                    await asyncio.sleep(0)
        listed = await self.client.workflow_service.list_workflow_executions(
            ListWorkflowExecutionsRequest(namespace=self.namespace, query=everything)
        )
        for run in listed.executions:
            number = run.execution.workflow_id[1:]
            self.marks[f"START{number}"] = moment(run.start_time)
            if run.HasField("close_time"):
                self.marks[f"CLOSE{number}"] = moment(run.close_time)

    async def eventually(self, call):
        """Namespaces of the real server are known to all of its parts only after a moment."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    return await call()
                except RPCError as error:
                    if "not found" not in error.message and "no mapping" not in error.message:
                        raise
                    await asyncio.sleep(0.05)

    async def found(self, query):
        answer = await self.ask(
            "workflow_service",
            "count_workflow_executions",
            CountWorkflowExecutionsRequest(namespace=self.namespace, query=query),
        )
        if "reply" not in answer:
            return answer
        reply = answer["reply"]
        groups = [(group.group_values[0].data.decode(), group.count) for group in reply.groups]
        return {"count": reply.count, "groups": sorted(groups)}

    async def play(self, query, size):
        for mark, value in self.marks.items():
            query = query.replace(f"<{mark}>", value)
        ids, token = [], b""
        while True:
            answer = await self.ask(
                "workflow_service",
                "list_workflow_executions",
                ListWorkflowExecutionsRequest(
                    namespace=self.namespace, query=query, page_size=size, next_page_token=token
                ),
            )
            if "reply" not in answer:
                return {"list": answer, "count": await self.found(query)}
            ids += [self.shown(run) for run in answer["reply"].executions]
            token = answer["reply"].next_page_token
            if not token:
                return {"list": ids, "count": await self.found(query)}

    def shown(self, run):
        shown = MessageToDict(run)
        for varies in [
            "startTime", "closeTime", "executionTime", "executionDuration", "historySizeBytes", "rootExecution",
        ]:
            shown.pop(varies, None)
        shown["execution"].pop("runId")
        return shown


class Dice(random.Random):
    def text(self):
        return self.choice(["a", "b", "ab", "A", "it''s", "x", "", "w1", "w2", "Alpha", "hello", "big"])

    def leaf(self):
        operator = self.choice(["=", "!=", "<>", "<", "<=", ">", ">="])
        negated = self.choice(["", "NOT "])
        keyword = self.choice(
            ["WorkflowId", "WorkflowType", "`WorkflowType`", "TaskQueue", "Kw", "ParentWorkflowId", "RootWorkflowId",
             "TemporalScheduledById", "ScheduledById", "ParentRunId", "TemporalKw"]
        )
        number = self.choice(
            ["Num", "HistoryLength", "ExecutionDuration", "Dbl", "StateTransitionCount", "TemporalNum"]
        )
        time = self.choice(["StartTime", "CloseTime", "ExecutionTime", "Dt"])
        moment = self.choice(
            ["'<START2>'", "'<CLOSE4>'", "'2024-06-01T00:00:00Z'", "'2030-01-01T00:00:00+02:00'", "0", "'2024-06-01'"]
        )
        values = lambda make: ", ".join(make() for _ in range(self.randint(1, 3)))
        quoted = lambda: f"'{self.text()}'"
        count = lambda: str(self.randint(-4, 4))
        value = self.randint(0, 21)
        return {
            0: lambda: f"{keyword} {operator} {quoted()}",
            1: lambda: f"{keyword} {negated}IN ({values(quoted)})",
            2: lambda: f"{keyword} {negated}STARTS_WITH {quoted()}",
            3: lambda: f"{keyword} {negated}BETWEEN {quoted()} AND {quoted()}",
            4: lambda: f"{self.choice([keyword, number, time, 'Kl', 'Tx', 'Bo', 'BuildIds'])} IS {negated}NULL",
            5: lambda: f"{number} {operator} {count()}",
            6: lambda: f"{number} {negated}BETWEEN {count()} AND {count()}",
            7: lambda: f"{number} {negated}IN ({values(count)})",
            8: lambda: f"{time if time != 'Dt' or operator in '<>' else 'StartTime'} {operator} {moment}",
            9: lambda: f"{time} {negated}BETWEEN {moment} AND '2031-01-01T00:00:00Z'",
            10: lambda: f"Bo {self.choice(['=', '!='])} {self.choice(['true', 'false'])}",
            11: lambda: f"{self.choice(['Kl', 'BuildIds'])} {self.choice(['=', '!='])} {quoted()}",
            12: lambda: f"Kl {negated}IN ({values(quoted)})",
            13: lambda: f"Tx {self.choice(['=', '!='])} '{self.choice(['hello', 'big world', 'SMALL', 'none', 'small big'])}'",
            14: lambda: f"ExecutionStatus {self.choice(['=', '!='])} {self.choice(['1', '5', quoted(), chr(39) + 'Running' + chr(39), chr(39) + 'Terminated' + chr(39)])}",
            15: lambda: f"ExecutionStatus {negated}IN ('Running', {self.choice(['5', chr(39) + 'Completed' + chr(39)])})",
            16: lambda: f"RunId = '<RUN{self.randint(0, len(RUNS) - 1)}>'",
            17: lambda: f"ExecutionDuration {operator} '{self.choice(['1h', '0s', '1d2h', '00:00:05', 'x'])}'",
            18: lambda: f"TemporalNamespaceDivision {self.choice(['= ' + quoted(), 'IS NULL', 'IS NOT NULL', '= ' + chr(39) + 'hidden' + chr(39)])}",
            19: lambda: f"{keyword} {self.choice(['LIKE', 'REGEXP', '<=>'])} {quoted()}",
            20: lambda: self.choice([f"{keyword} = {count()}", f"{number} = {quoted()}", f"Bo = {quoted()}", f"Nope = {count()}", f"Kl > {quoted()}", f"Tx STARTS_WITH {quoted()}", f"Bo BETWEEN true AND false"]),
            21: lambda: self.choice([f"{keyword} =", f"({keyword} = 'a'", f"{keyword} = a", f"NOT {keyword}", f"{keyword} = 'a' LIMIT 1", f"f({keyword})", f"{keyword} = 'a' AND"]),
        }[value]()

    def condition(self, depth):
        if depth == 0 or self.random() < 0.4:
            return self.leaf()
        if self.random() < 0.2:
            return f"NOT ({self.condition(depth - 1)})"
        parts = [self.condition(depth - 1) for _ in range(self.randint(2, 3))]
        return "(" + self.choice([" AND ", " or "]).join(parts) + ")"

    def query(self):
        condition = self.condition(self.randint(0, 2)) if self.random() < 0.95 else ""
        if self.random() < 0.2:
            field = self.choice(["ExecutionStatus"] * 4 + ["WorkflowType", "Kw", "ExecutionStatus, Kw", "Nope"])
            condition += f" GROUP BY {field}"
        if self.random() < 0.05:
            condition += f" ORDER BY {self.choice(['StartTime', 'Tx', 'Nope', 'CloseTime DESC'])}"
        return condition.strip()


async def compared(peers, label, call):
    answers = [await call(peer) for peer in peers]
    if answers[0] == answers[1]:
        return 0
    print(f"{label}\n  server {answers[0]}\n  engine {answers[1]}", flush=True)
    return 1


async def main():
    real, engine, seed, count = sys.argv[1:5]
    namespace = f"visibility-{uuid.uuid4()}"
    peers = [Peer(await Client.connect(address), namespace) for address in (real, engine)]
    await asyncio.gather(*(peer.prepare() for peer in peers))
    dice, different = Dice(int(seed)), 0
    for _ in range(int(count)):
        query, size = dice.query(), dice.choice([0, 1, 3, 1000])
        different += await compared(peers, f"{query} (pages of {size})", lambda peer: peer.play(query, size))

    # An attribute is removed while runs have values of it.
    for peer in peers:
        await peer.client.operator_service.remove_search_attributes(
            RemoveSearchAttributesRequest(namespace=namespace, search_attributes=["Num"])
        )
    async with asyncio.timeout(PATIENCE):
        while "reply" in await peers[0].ask(
            "workflow_service",
            "list_workflow_executions",
            ListWorkflowExecutionsRequest(namespace=namespace, query="Num > 0"),
        ):
            await asyncio.sleep(0.05)
    for query in ["Num > 0", "Kw = 'a'", "WorkflowType = 'Gamma'"]:
        different += await compared(peers, f"{query} (Num is removed)", lambda peer: peer.play(query, 0))
    print(f"{different} of {count} queries differ", flush=True)
    # The SDK may crash in the end of the interpreter.
    os._exit(1 if different else 0)


asyncio.run(main())
