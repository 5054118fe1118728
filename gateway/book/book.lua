-- Reserves and settles holds for all accounts of a hold at once. It computes as
-- core.go does; book_test.go compares the two, step by step.
--
-- KEYS  for each account: its state, leases of tokens and money, leases that ran
--       out, and leases of requests that are under way
-- ARGV  what to do; now in microseconds, or '' for this server's clock; month;
--       how long a lease lasts in microseconds; the hold's id; requests, input,
--       output, light requests, concurrent requests and cost that it reserves; the
--       same six that it used; then for each account: rates of the five buckets,
--       requests at a time, budget, and what was spent before the account was
--       known, or ''
-- returns 1 (done), 0 (refused) or -n (what account n spent must be told), then
--       for each account: its five debts, month, spent, held, running
local periods = { 1e6, 6e7, 6e7, 6e7, 6e7 }
local buckets, keysEach = #periods, 4
local lateKept, clockBack = 3600e6, 6e7

local verb, month, lasts, id = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local now = tonumber(ARGV[2])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1e6 + t[2]
end

local function whole(n) return string.format('%.0f', n) end

local function amounts(requests, input, output, light) return { requests, requests, input, output, light } end

-- text names all that is given back when a lease runs out. A count of requests is not.
local function use(at)
  local r, i, o, l = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local n, c = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  return { amounts = amounts(r, i, o, l), concurrent = n, cost = c, lasts = n + i + o + c > 0,
    text = table.concat({ ARGV[at + 1], ARGV[at + 2], ARGV[at + 4], ARGV[at + 5] }, ':') }
end
local reserved, used = use(6), use(12)

-- leasesOf returns where a lease is kept: what is under way is counted by its leases.
local function leasesOf(a)
  if reserved.concurrent > 0 then return a.running_leases end
  return a.leases
end

local function take(a, more, less)
  for i, rate in ipairs(a.rates) do
    if rate > 0 then a.debt[i] = math.max(a.debt[i] + (more[i] - less[i]) * periods[i], 0) end
  end
end

local none = { 0, 0, 0, 0, 0 }

local function drained(debt, rate, elapsed)
  if rate == 0 or elapsed > debt / rate then return 0 end
  return math.max(debt - rate * elapsed, 0)
end

-- giveBack undoes the reservations of leases that nobody renewed.
local function giveBack(a)
  for _, leases in ipairs({ a.leases, a.running_leases }) do
    for _, lease in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', whole(now))) do
      local _, i, o, _, c = string.match(lease, '^(.*):(%d+):(%d+):(%d+):(%d+)$')
      take(a, none, amounts(0, tonumber(i), tonumber(o), 0))
      if a.budget > 0 then a.held = math.max(a.held - tonumber(c), 0) end
      redis.call('ZREM', leases, lease)
      redis.call('ZADD', a.late, whole(now), lease)
    end
  end
  redis.call('ZREMRANGEBYSCORE', a.late, '-inf', whole(now - lateKept))
end

local function open(n)
  local first = keysEach * (n - 1)
  local a = { state = KEYS[first + 1], leases = KEYS[first + 2], late = KEYS[first + 3], running_leases = KEYS[first + 4],
    rates = {}, debt = {} }
  local at = 18 + (buckets + 3) * (n - 1)
  for i = 1, buckets do a.rates[i] = tonumber(ARGV[at + i - 1]) end
  at = at + buckets
  a.concurrent, a.budget, a.seed = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local kept = redis.call('HMGET', a.state, 'at', 'd1', 'd2', 'd3', 'd4', 'd5', 'month', 'spent', 'held')
  local before = tonumber(kept[1] or 0)
  if before - now > clockBack then before = now end
  local elapsed = math.max(now - before, 0)
  for i = 1, buckets do a.debt[i] = drained(tonumber(kept[i + 1] or 0), a.rates[i], elapsed) end
  a.at = math.max(before, now)
  a.month, a.spent, a.held = tonumber(kept[7] or 0), tonumber(kept[8] or 0), tonumber(kept[9] or 0)
  if a.month == 0 and a.seed then a.month, a.spent = month, a.seed end
  if a.month ~= 0 and month > a.month then a.month, a.spent = month, 0 end
  giveBack(a)
  a.running = redis.call('ZCARD', a.running_leases)
  return a
end

local function fits(a)
  for i, rate in ipairs(a.rates) do
    local more = reserved.amounts[i]
    if rate > 0 and more > 0 and a.debt[i] + more * periods[i] > rate * periods[i] then return false end
  end
  if reserved.concurrent > 0 and a.concurrent > 0 and a.running + reserved.concurrent > a.concurrent then return false end
  return a.budget == 0 or reserved.cost == 0 or a.spent + a.held + reserved.cost <= a.budget
end

local function reserve(a)
  take(a, reserved.amounts, none)
  if a.budget > 0 then a.held = a.held + reserved.cost end
  if not reserved.lasts then return end
  redis.call('ZADD', leasesOf(a), whole(now + lasts), id .. ':' .. reserved.text)
  a.running = a.running + reserved.concurrent
end

-- settle of a lease that ran out finds its reservation given back already, one
-- that was settled before finds nothing to do.
local function settle(a)
  local lease = id .. ':' .. reserved.text
  if redis.call('ZREM', leasesOf(a), lease) == 1 then
    take(a, used.amounts, reserved.amounts)
    if a.budget > 0 then a.held = math.max(a.held - reserved.cost, 0) end
    a.running = a.running - reserved.concurrent
  elseif redis.call('ZREM', a.late, lease) == 1 then
    take(a, used.amounts, amounts(reserved.amounts[1], 0, 0, reserved.amounts[5]))
  else
    return
  end
  if a.budget > 0 and a.month ~= 0 then a.spent = a.spent + used.cost end
end

-- charge takes what was used while this server was out of reach, once.
local function charge(a)
  if redis.call('ZADD', a.late, 'NX', whole(now), 'charged:' .. id) == 1 then
    take(a, used.amounts, none)
    if a.budget > 0 and a.month ~= 0 then a.spent = a.spent + used.cost end
  end
end

local function save(a)
  redis.call('HSET', a.state, 'at', whole(a.at), 'd1', whole(a.debt[1]), 'd2', whole(a.debt[2]), 'd3', whole(a.debt[3]),
    'd4', whole(a.debt[4]), 'd5', whole(a.debt[5]), 'month', whole(a.month), 'spent', whole(a.spent), 'held', whole(a.held))
  local days = a.budget > 0 and 40 or 1
  for _, key in ipairs({ a.state, a.leases, a.late, a.running_leases }) do redis.call('PEXPIRE', key, days * 86400000) end
end

local accounts, answer = {}, 1
for n = 1, #KEYS / keysEach do accounts[n] = open(n) end
if verb == 'reserve' then
  for n, a in ipairs(accounts) do
    if a.budget > 0 and a.month == 0 and reserved.cost > 0 then answer = -n break end
    if not fits(a) then answer = 0 end
  end
end
for _, a in ipairs(accounts) do
  if verb == 'reserve' and answer == 1 then reserve(a) end
  if verb == 'settle' then settle(a) end
  if verb == 'charge' then charge(a) end
  if verb == 'renew' then redis.call('ZADD', leasesOf(a), 'XX', whole(now + lasts), id .. ':' .. reserved.text) end
  save(a)
end
local told = { answer }
for _, a in ipairs(accounts) do
  for i = 1, buckets do told[#told + 1] = a.debt[i] end
  for _, n in ipairs({ a.month, a.spent, a.held, a.running }) do told[#told + 1] = n end
end
return told
