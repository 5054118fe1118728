/** What the words of the operator's page mean, and which part of the runbook says what to do. */
export const terms = {
  slo: { title: 'SLO', text: 'Service level objective: the share of requests that must be answered, or answered in time. Set with --slo-ttft and --slo-tpot.', runbook: 'ParleyFirstTokensSlow' },
  burn: { title: 'Burn rate', text: 'How fast the error budget, the share of requests that may miss the SLO, is used. At 1× it lasts exactly as long as planned; at 14.4× a month’s budget is gone in two days.', runbook: 'ParleyBudgetBurnsFast' },
  percentile: { title: 'p50, p95, p99', text: 'Half, 95% or 99% of the requests were at most this slow.', runbook: 'ParleyFirstTokensSlow' },
  ttft: { title: 'First token', text: 'The time from the arrival of a request to the first token of its answer, the queue included.', runbook: 'ParleyFirstTokensSlow' },
  gap: { title: 'Between tokens', text: 'The time between two tokens of an answer. People who read along notice more than 50 ms.', runbook: 'ParleyTokensSlow' },
  queue: { title: 'Waiting', text: 'Requests that were admitted and have no worker yet, by tier. A higher tier is served more often.', runbook: 'ParleyQueueLong' },
  prefill: { title: 'Prefill', text: 'Computing the prompt, before the first token. The part that is in the cache is not computed again.', runbook: 'ParleyCacheCollapsed' },
  decode: { title: 'Decode', text: 'Computing the answer, one token after the other.', runbook: 'ParleyTokensSlow' },
  rejected: { title: 'Rejected', text: 'Requests that the server refused for now, because the queue was full or the wait too long. Requests over a limit of their key or organisation are counted separately.', runbook: 'ParleyShedding' },
  kv: { title: 'KV', text: 'Key/value memory: where a worker stores the context of its requests. When it is full, requests wait or are preempted.', runbook: 'ParleyKVFull' },
  preemption: { title: 'Preemption', text: 'Taking the memory of one answer for another. The first is computed again later, from what is still cached.', runbook: 'ParleyPreempting' },
  breaker: { title: 'Circuit breaker', text: 'Stops sending requests to a model or worker that fails. Closed: all is well. Open: no requests are sent. Trying: a few requests test whether it has recovered.', runbook: 'ParleyBreakerOpen' },
  busy: { title: 'Busy', text: 'The share of time in which the worker was computing.', runbook: 'ParleyQueueLong' },
} as const;

export type TermName = keyof typeof terms;
