// Walks through the pages of Temporal's web UI, on Debian's Chromium, and reports what goes wrong.
//
// Arguments: URL of the UI, namespace, a workflow id and its run id. Prints one line of JSON for each page: the failed
// requests and the errors that the page shows. Exits with 1 if there are any that are not expected.
//
// WINDLASS_PLAYWRIGHT is the directory of the npm package playwright-core.

import { createRequire } from 'node:module';

const require = createRequire(`${process.env.WINDLASS_PLAYWRIGHT}/`);
const { chromium } = require('playwright-core');

const [url, namespace, workflow, run] = process.argv.slice(2);
const ns = `${url}/namespaces/${namespace}`;
const execution = `${ns}/workflows/${encodeURIComponent(workflow)}/${run}`;

// What each page must show, and which requests of it may fail, with the reason.
const PAGES = [
  { name: 'workflows', at: `${ns}/workflows`, shows: [workflow] },
  { name: 'workflows by status', at: `${ns}/workflows?query=${encodeURIComponent('ExecutionStatus="Running"')}` },
  { name: 'workflows by id', at: `${ns}/workflows?query=${encodeURIComponent(`WorkflowId="${workflow}"`)}`, shows: [workflow] },
  { name: 'workflows by prefix', at: `${ns}/workflows?query=${encodeURIComponent(`WorkflowId STARTS_WITH "${workflow.slice(0, 3)}"`)}`, shows: [workflow] },
  { name: 'summary and history', at: `${execution}/history`, shows: [workflow] },
  { name: 'timeline', at: `${execution}/timeline`, shows: [workflow] },
  { name: 'relationships', at: `${execution}/relationships`, shows: [workflow] },
  { name: 'workers of a run', at: `${execution}/workers`, shows: [workflow] },
  { name: 'pending activities', at: `${execution}/pending-activities`, shows: [workflow] },
  { name: 'call stack', at: `${execution}/call-stack`, shows: [workflow] },
  { name: 'queries', at: `${execution}/query`, shows: [workflow] },
  { name: 'metadata', at: `${execution}/user-metadata`, shows: [workflow] },
  { name: 'search attributes', at: `${execution}/search-attributes`, shows: [workflow] },
  { name: 'memo', at: `${execution}/memo`, shows: [workflow] },
  { name: 'schedules', at: `${ns}/schedules` },
  { name: 'batch operations', at: `${ns}/batch-operations` },
  { name: 'worker deployments', at: `${ns}/worker-deployments` },
  { name: 'task queue', at: `${ns}/task-queues/ui` },
  { name: 'namespaces', at: `${url}/namespaces`, shows: [namespace] },
  { name: 'namespace', at: ns, shows: [namespace] },
  { name: 'nexus endpoints', at: `${url}/nexus` },
  { name: 'archival', at: `${ns}/archival` },
  { name: 'start a workflow', at: `${ns}/workflows/start-workflow` },
];

// Requests that may fail: the engine says UNIMPLEMENTED (501) to what it does not have.
const MAY_FAIL = [
  // Endpoints are served by the operator service, which the engine has once it has Nexus.
  { status: 501, path: /^\/api\/v1\/nexus\/endpoints/ },
  // The number of schedules, until the engine has schedules.
  { status: 501, path: /\/schedule-count$/ },
  // Standalone activities are a preview of server 1.32 that the engine does not advertise.
  { status: 501, path: /\/activities/ },
];

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});
let failed = false;
for (const page of PAGES) {
  const tab = await browser.newPage();
  const refused = [];
  const errors = [];
  tab.on('response', (response) => {
    const { pathname, search } = new URL(response.url());
    const known = MAY_FAIL.some(({ status, path }) => status === response.status() && path.test(pathname));
    if (response.status() >= 400 && !known) refused.push(`${response.status()} ${pathname}${search}`);
  });
  // Reads of a history that wait for its next event stay open.
  const open = new Set();
  const waits = (request) => /wait_?new_?event=true/i.test(request.url());
  tab.on('request', (request) => waits(request) || open.add(request));
  tab.on('requestfinished', (request) => open.delete(request));
  tab.on('requestfailed', (request) => open.delete(request));
  tab.on('pageerror', (error) => errors.push(String(error)));
  await tab.goto(page.at, { waitUntil: 'load' }).catch((error) => errors.push(String(error)));
  // Idle: nothing was open for half a second.
  for (let idle = 0, tries = 0; idle < 5 && tries < 200; tries += 1) {
    await tab.waitForTimeout(100);
    idle = open.size === 0 ? idle + 1 : 0;
  }
  errors.push(...[...open].map((request) => `without an answer: ${request.url()}`));
  for (const text of page.shows ?? []) {
    await tab.getByText(text).locator('visible=true').first().waitFor({ timeout: 15_000 }).catch(() => errors.push(`does not show ${text}`));
  }
  const toasts = await tab.locator('[role="log"] >> visible=true, [data-testid="toast"] >> visible=true, [role="alert"] >> visible=true').allInnerTexts();
  errors.push(...toasts.map((text) => text.trim()).filter(Boolean).map((text) => `toast: ${text}`));
  if (process.env.WINDLASS_UI_PICTURES) {
    await tab.screenshot({ path: `${process.env.WINDLASS_UI_PICTURES}/${page.name.replaceAll(' ', '-')}.png` });
  }
  failed ||= refused.length + errors.length > 0;
  console.log(JSON.stringify({ page: page.name, refused, errors }));
  await tab.close();
}
await browser.close();
process.exit(failed ? 1 : 0);
