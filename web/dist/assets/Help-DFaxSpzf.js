import{$ as e,B as t,E as n,J as r,L as i,M as a,N as o,R as s,U as c,X as l,Z as u,et as d,ft as f,j as p,lt as m,nt as h,pt as g,q as _,tt as v,ut as y,y as b,z as x}from"./sse-CIjO2GIf.js";import{n as S,t as C}from"./admin-Rj_qABuh.js";var w=`# Runbook

What to do when an alert fires. The alerts are in \`deploy/alerts/parley.yaml\`, a Grafana dashboard in
\`deploy/grafana/parley.json\`. Without either, the server itself keeps 30 days of history: open \`/admin\`, or run \`parley top\`.
The sentence at the top names the bottleneck: failures, memory, compute, the queue or clients, checked in that order, because
each makes the next look bad.

Three habits:

* **Do not start with processor utilization.** A server whose memory is full has idle processors and unhappy users. The queue
  and the key/value memory predict what users will feel next.
* **Run \`parley doctor\`.** It checks configuration, store, workers, clocks, event streams and fingerprints in seconds, and says
  what to fix.
* **Look at one request.** Every response has an \`x-request-id\`. Enter it in \`/admin#requests\`: the timeline shows where its
  time went.

## Alerts

### ParleyDown

**Means.** Prometheus cannot reach the server's \`/metrics\`.
**Look.** \`curl -s HOST/healthz\` from the server's machine. The log's last lines. Whether the kernel killed it for memory: \`dmesg | grep -i kill\`.
**Do.** Restart it; running answers are lost, conversations are not. If it ran out of memory, read the plan that \`parley serve\` prints and lower \`--kv-tokens\`.

### ParleyBudgetBurnsFast

**Means.** Requests fail or are rejected at a rate that spends the month's error budget (0.1 %) in two days.
**Look.** \`/admin\`: did they fail (our fault) or were they rejected (no capacity)? Failed: \`/admin#requests\`, outcome failed. Rejected: the reason in \`parley_shed_total\`.
**Do.** Failed: follow the first error in the log; drain the worker it names. Rejected: see ParleyShedding.

### ParleyBudgetBurnsSlowly

**Means.** The same at a lower rate: it has lasted for hours and will spend the error budget within days.
**Look.** As above, over six hours.
**Do.** This does not need to page the on-call engineer. Find the cause during working hours.

### ParleyFirstTokensSlow

**Means.** The objective in the label is missed: too many first tokens are late. By default, more than one request in twenty waits over a second.
**Look.** \`/admin\`: do requests wait in the queue, in the engine for a seat, memory or their share of a step (see a request's timeline), or does prefill itself take long? Has the cache hit rate fallen?
**Do.** Queue or compute: add a worker, or shed earlier with \`--shed-start\`. Prefill: see ParleyCacheCollapsed; limit the key of an organisation that sends long prompts.

### ParleyTokensSlow

**Means.** The objective in the label is missed: tokens are generated too slowly.
**Look.** How many answers run at once; whether long prompts are computed between their tokens (\`parley_engine_step_seconds\`).
**Do.** Lower \`--seqs\` or \`--tpot-target\`, so that each step is shorter; add a worker.

### ParleyQueueLong

**Means.** A new request would be queued for more than five seconds.
**Look.** \`/admin\`: is one tier or organisation the cause? Is a worker missing from the fleet?
**Do.** Restore or add workers. If one organisation floods the server, limit its key. If all do, expect ParleyShedding next.

### ParleyShedding

**Means.** Requests are rejected so that admitted ones are served in time, lowest tier first.
**Look.** The reason: \`late\` (would miss its deadline), \`full\` (the queue is full), \`overload\` (a share of all arrivals), \`displaced\` (by a higher tier), \`breaker\` (see below).
**Do.** For a few minutes this is the protection at work. If it lasts, capacity is missing: add workers or lower limits.

### ParleyKVFull

**Means.** The key/value memory is full: memory, not compute, limits how many answers run at once.
**Look.** The length of prompts; how many answers run; whether one organisation holds most of the memory.
**Do.** \`--kv-type int8\` doubles what fits, \`--kv-tokens\` takes more memory, \`--kv-host\` and \`--kv-disk\` keep idle conversations elsewhere; or add a worker.

### ParleyPreempting

**Means.** Sequences are preempted to make room for others and recomputed later: work is done twice.
**Look.** As for ParleyKVFull.
**Do.** As for ParleyKVFull, or lower \`--seqs\`.

### ParleyBreakerOpen

**Means.** A model or a worker failed repeatedly and gets no requests for a while. Others are unaffected.
**Look.** The log for the preceding failures. \`/admin#fleet\` for the worker's state.
**Do.** Fix or replace the worker. The breaker probes it and closes when it answers.

### ParleyCacheCollapsed

**Means.** The cache hit rate of prompt tokens has fallen by half.
**Look.** \`/admin#prefix\` shows which organisation's prompts changed, at which tokens, and the text: often a time or an id was put at the beginning. Otherwise workers were restarted, or the router lost their events (\`parley_fleet_index_degraded\`).
**Do.** Ask the organisation to put the parts that change after the parts that stay.

### ParleyClientsLeave

**Means.** Clients hang up before their answer is complete.
**Look.** The total times of cancelled requests in \`/admin#requests\`. If they are all the same, a client timeout cuts them off.
**Do.** Raise the timeout in the client or the proxy in between; use streaming.

### ParleyRetryStorm

**Means.** Clients retry faster than the server answers, which makes the overload worse.
**Look.** Which organisation; whether its clients honour \`Retry-After\`.
**Do.** The queue, the breaker and shedding protect the server meanwhile. Limit the key's requests per minute; contact its owner.

### ParleyPoolEmpty

**Means.** No worker of a pool can answer. Requests for it wait for \`--worker-wait\` (5 s), then get 503.
**Look.** \`/admin#fleet\`, or \`parley fleet status\`: are the workers down, draining, or were they never discovered? \`parley doctor\` contacts each of them.
**Do.** Start workers, or resume drained ones. They join by themselves.

### ParleyWorkerGone

**Means.** A worker gets no requests: it does not answer, answers with errors, or was drained and forgotten. The others carry its load.
**Look.** \`/admin#fleet\` shows which worker and why; the worker's own log.
**Do.** Restart or resume it, or remove it from its pool.

### ParleyAnswersMove

**Means.** Workers are lost or fail mid-answer, and other workers resume the answers. No token is lost, but prompts are recomputed.
**Look.** The label \`why\`: \`lost\` (it died or is unreachable), \`failed\` (it answers with errors), \`refused\` (it is full). \`/admin#fleet\`; whether the kernel kills processes for memory.
**Do.** Fix or drain the worker named in the log.

### ParleyFleetFull

**Means.** Dispatched requests find no worker with capacity, and wait.
**Look.** \`/admin#fleet\`: how many workers are up, and how full their key/value memory is.
**Do.** Add workers, or wake sleeping ones. If the queue admits more than fits, lower \`--seqs\` or \`--queue-depth\`.

### ParleyWorkerKVFull

**Means.** A worker's key/value memory is nearly full. New requests wait in it or preempt others.
**Look.** \`/admin#fleet\`: is one worker full and others not? Then many prompts share a prefix and go where it is cached.
**Do.** As for ParleyKVFull; or add a worker.

### ParleyEventsLost

**Means.** Cache events of a worker were lost, so the router only estimates what it has cached, and the hit rate falls.
**Look.** Whether the gateway reaches the worker (a Parley worker's events come over its port, those of other engines over their \`events\` and \`replay\` sockets); \`parley_fleet_index_gaps_total\`. \`parley doctor --url\` names the workers.
**Do.** Fix the network between them. The gateway requests a snapshot until it gets one.

### ParleyPromptsChange

**Means.** Prompts that used to share a prefix no longer do, so each is computed in full.
**Look.** \`/admin#prefix\` shows the organisation, the tokens that differ, and the text before and after.
**Do.** Ask the organisation to put the parts that change (a time, an id, a list in random order) after the parts that stay.

### ParleyBudgetNearlySpent

**Means.** A key or an organisation has spent most of its monthly budget (\`--budget-alert\`, 80 %). Once it is spent, requests are rejected with 429 \`insufficient_quota\`.
**Look.** \`/admin#keys\` shows whose budget it is and how fast it is spent; the log has a line \`budget nearly spent\` with its name. \`/admin#usage\` shows what it was spent on.
**Do.** Ask its owner whether this is intended. Raise the budget, or let it run out: it resets on the first of the month, UTC.

### ParleyBudgetWebhookFails

**Means.** A budget alert could not be delivered to \`--budget-webhook\`. It is in the log and on \`/admin#keys\`, and is not sent again.
**Look.** The log line that names the alert: the receiver's response, or why it could not be reached.
**Do.** Fix the receiver or the address. \`GET /admin/api/alerts\` lists missed alerts.

## When the disk is full

\`/readyz\` answers \`{"status":"degraded",…}\` and the log reports it. Models still answer. Conversations, files and stored responses
are rejected with 503 and that reason; usage is buffered in memory and written when there is space again. Deleting
conversations, files and keys works, because the server reserves 16 MiB in \`parley.db.reserve\` next to its database; do not
delete that file by hand. Free space on that disk, or delete old conversations; the status becomes \`ready\` with the next
successful write.

## Scaling

\`/admin#scale\` shows how many workers the autoscaler wants and why, how many are ready, what was expected of a time and what came,
and what they cost in an hour. \`parley_scale_*\` are the same as metrics.

| what is seen | why | what to do |
|---|---|---|
| silent | the autoscaler ended, or does not reach the gateway; workers stay as they are | look at its log; start it again. On Kubernetes another one takes over within 15 seconds |
| cannot act | the reason stands below it: a rule that a role lacks, a name that does not exist, an API server or webhook that does not answer | do what it says; it tries again every two seconds |
| adding, for long | workers are asked for and do not become ready | \`kubectl get pods\`: no free GPU, an image that is not pulled, a quota; \`/admin#fleet\` for workers that do not join |
| fewer than are needed, and *is the maximum* in the sentence | \`--max\` or \`--budget\` | raise it, or let the queue shed: see ParleyShedding |
| more than are needed | fewer must have been enough for \`--steady\`; a warm pool is kept for the steepest rise so far | wait; lower \`--steady\`, or \`--max\` |
| what came is far above what was expected | a day unlike those before | workers follow the present rate meanwhile; raise \`--min\` before an event that is known |
| the number goes up and down | two autoscalers change the same workers | remove the HPA, or run \`parley fleet scale --advise\` and let the HPA act |

To take over by hand, end the autoscaler first, and then scale: what it wants replaces what others set.

## Replacing a model file

Write the new file under another name on the same disk, rename it over the old one, and restart the worker. A file that is overwritten in place
(\`cp new.gguf model.gguf\`) loses pages that the server has mapped: requests for that model then fail with 503 until the restart.

## Drills

Rehearsed failures are shorter. Each drill starts its own gateway and workers on this machine (\`--workers\`, default 2), causes
the failure, and prints numbers before, during and after. None touches a running server. With
\`--addr 127.0.0.1:8081 --pause 20s\` you can watch the admin page there before, during and after the failure.

| | what happens | what must hold |
|---|---|---|
| \`parley drill oom\` | prompts and answers that need far more key/value memory than there is | nothing is killed: what can never fit is rejected with a number, the rest waits or is preempted, and completes |
| \`parley drill cascade\` | ten times the load it can serve, from clients that retry, while a worker is killed | the other worker resumes its answers, the queue stays short, admitted requests are served, the rest are told when to retry; recovery is immediate |
| \`parley drill viral\` | hundreds of clients ask the same question at once | it is computed once, and every client gets the answer |

\`--json\` prints the measurements; the exit code is 1 if the protection did not hold.
`;function T(e){let t=[],n=!1;for(let r of e.split(`
`)){let e=/^(#+) (.*)$/.exec(r),i=t.at(-1);if(e)t.push({kind:`heading`,level:e[1].length,text:e[2]});else if(r.startsWith(`|`)){let e=r.slice(1,-1).split(`|`).map(e=>E(e.trim()));if(/^\|[-|: ]+\|$/.test(r))continue;i?.kind===`table`?i.rows.push(e):t.push({kind:`table`,rows:[e]})}else if(r.startsWith(`* `))t.push({kind:`item`,parts:E(r.slice(2))});else if(r.trim()!==``){let e=E(r.trim());n&&i&&(i.kind===`line`||i.kind===`item`)&&e[0]?.kind!==`strong`?i.parts.push({kind:`text`,text:` `},...e):t.push({kind:`line`,parts:e})}n=r.trim()!==``&&!e}return t}function E(e){let t=[];for(let n of e.matchAll(/`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\([^)]*\)|([^`*[]+|.)/g))n[1]===void 0?n[2]===void 0?t.push({kind:`text`,text:n[3]??n[4]}):t.push({kind:`strong`,text:n[2]}):t.push({kind:`code`,text:n[1]});return t}var D=T(w).slice(1),O=(e,t=g)=>{var n=x(),r=d(n);p(r,17,t,a,(e,t)=>{var n=x(),r=d(n),a=e=>{var n=k(),r=v(n,!0);l(()=>i(r,_(t).text)),s(e,n)},u=e=>{var n=A(),r=v(n,!0);l(()=>i(r,_(t).text)),s(e,n)},f=e=>{var n=c();l(()=>i(n,_(t).text)),s(e,n)};o(r,e=>{_(t).kind===`code`?e(a):_(t).kind===`strong`?e(u,1):e(f,-1)}),s(e,n)}),s(e,n)},k=t(`<code class="svelte-1xkbb6c"> </code>`),A=t(`<strong> </strong>`),j=t(`<dt class="svelte-1xkbb6c"> </dt> <dd class="svelte-1xkbb6c"> <a>What to do<span class="visually-hidden"> </span></a></dd>`,1),M=t(`<h3> </h3>`),N=t(`<h4> </h4>`),P=t(`<th scope="col"><!></th>`),F=t(`<td class="svelte-1xkbb6c"><!></td>`),I=t(`<tr></tr>`),L=t(`<div class="scroll" tabindex="0" role="group" aria-label="Table of the runbook"><table><tbody></tbody></table></div>`),R=t(`<p><!></p>`),z=t(`<section aria-labelledby="words" class="svelte-1xkbb6c"><h2 id="words" class="svelte-1xkbb6c">Terms</h2> <dl class="card svelte-1xkbb6c"></dl></section> <section aria-labelledby="runbook" class="runbook svelte-1xkbb6c"><h2 id="runbook" class="svelte-1xkbb6c">Runbook</h2> <!></section>`,1);function B(t,c){y(c,!0),u(()=>{let e=S.detail;e&&r().then(()=>document.getElementById(`runbook-${e}`)?.scrollIntoView())});var g=z(),w=d(g),T=h(e(w),2);p(T,21,()=>Object.values(C),e=>e.title,(t,n)=>{var r=j(),a=d(r),o=v(a,!0),c=h(a,2),u=e(c),p=h(u),m=h(e(p)),g=v(m);f(p),f(c),l(e=>{i(o,_(n).title),i(u,`${_(n).text??``} `),b(p,`href`,e),i(g,`about ${_(n).title??``}`)},[()=>S.address(`help`,_(n).runbook)]),s(t,r)}),f(T),f(w);var E=h(w,2),k=h(e(E),2);p(k,17,()=>D,a,(t,r)=>{var c=x(),u=d(c),m=e=>{var t=x(),a=d(t),c=e=>{var t=M();let a;var o=v(t,!0);l(()=>{b(t,`id`,`runbook-${_(r).text??``}`),a=n(t,1,`svelte-1xkbb6c`,null,a,{chosen:S.detail===_(r).text}),i(o,_(r).text)}),s(e,t)},u=e=>{var t=N();let a;var o=v(t,!0);l(()=>{b(t,`id`,`runbook-${_(r).text??``}`),a=n(t,1,`svelte-1xkbb6c`,null,a,{chosen:S.detail===_(r).text}),i(o,_(r).text)}),s(e,t)};o(a,e=>{_(r).level===2?e(c):e(u,-1)}),s(e,t)},h=t=>{var n=L(),i=e(n),c=e(i);p(c,21,()=>_(r).rows,a,(t,n,r)=>{var i=I();p(i,21,()=>_(n),a,(t,n)=>{var i=x(),a=d(i),c=t=>{var r=P();O(e(r),()=>_(n)),f(r),s(t,r)},l=t=>{var r=F();O(e(r),()=>_(n)),f(r),s(t,r)};o(a,e=>{r===0&&_(n).length?e(c):e(l,-1)}),s(t,i)}),f(i),s(t,i)}),f(c),f(i),f(n),s(t,n)},g=t=>{var i=R();let a;O(e(i),()=>_(r).parts),f(i),l(()=>a=n(i,1,`svelte-1xkbb6c`,null,a,{item:_(r).kind===`item`})),s(t,i)};o(u,e=>{_(r).kind===`heading`?e(m):_(r).kind===`table`?e(h,1):e(g,-1)}),s(t,c)}),f(E),s(t,g),m()}export{B as default};