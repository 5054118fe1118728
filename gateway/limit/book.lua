-- Reserves and settles holds for all accounts of a hold at once. It computes as
-- core.go does; book_test.go compares the two, step by step.
--
-- KEYS  for each account: its state, its leases, and leases that ran out
-- ARGV  what to do; now in microseconds, or '' for this server's clock; month;
--       how long a lease lasts in microseconds; the hold's id; requests, input,
--       output and cost that it reserves; the same four that it used; then for
--       each account: rates of the four buckets, requests at a time, budget, and
--       what was spent before the account was known, or ''
-- returns 1 (done), 0 (refused) or -n (what account n spent must be told), then
--       for each account: its four debts, month, spent, held, running
local periods = { 1e6, 6e7, 6e7, 6e7 }
local lateKept, clockBack = 3600e6, 6e7

local verb, month, lasts, id = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local now = tonumber(ARGV[2])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1e6 + t[2]
end

local function whole(n) return string.format('%.0f', n) end

local function amounts(requests, input, output) return { requests, requests, input, output } end

local function use(at)
  local r, i, o, c = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  return { amounts = amounts(r, i, o), cost = c, text = table.concat({ ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3] }, ':') }
end
local reserved, used = use(6), use(10)

local function take(a, more, less)
  for i, rate in ipairs(a.rates) do
    if rate > 0 then a.debt[i] = math.max(a.debt[i] + (more[i] - less[i]) * periods[i], 0) end
  end
end

local none = { 0, 0, 0, 0 }

local function drained(debt, rate, elapsed)
  if rate == 0 or elapsed > debt / rate then return 0 end
  return math.max(debt - rate * elapsed, 0)
end

-- giveBack undoes the reservations of leases that nobody renewed.
local function giveBack(a)
  for _, lease in ipairs(redis.call('ZRANGEBYSCORE', a.leases, '-inf', whole(now))) do
    local _, r, i, o, c = string.match(lease, '^(.*):(%d+):(%d+):(%d+):(%d+)$')
    take(a, none, amounts(tonumber(r), tonumber(i), tonumber(o)))
    if a.budget > 0 then a.held = math.max(a.held - tonumber(c), 0) end
    redis.call('ZREM', a.leases, lease)
    redis.call('ZADD', a.late, whole(now), lease)
  end
  redis.call('ZREMRANGEBYSCORE', a.late, '-inf', whole(now - lateKept))
end

local function open(n)
  local a = { state = KEYS[3 * n - 2], leases = KEYS[3 * n - 1], late = KEYS[3 * n], rates = {}, debt = {} }
  local at = 14 + 7 * (n - 1)
  for i = 1, 4 do a.rates[i] = tonumber(ARGV[at + i - 1]) end
  a.concurrent, a.budget, a.seed = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  local kept = redis.call('HMGET', a.state, 'at', 'd1', 'd2', 'd3', 'd4', 'month', 'spent', 'held')
  local before = tonumber(kept[1] or 0)
  if before - now > clockBack then before = now end
  local elapsed = math.max(now - before, 0)
  for i = 1, 4 do a.debt[i] = drained(tonumber(kept[i + 1] or 0), a.rates[i], elapsed) end
  a.at = math.max(before, now)
  a.month, a.spent, a.held = tonumber(kept[6] or 0), tonumber(kept[7] or 0), tonumber(kept[8] or 0)
  if a.month == 0 and a.seed then a.month, a.spent = month, a.seed end
  if a.month ~= 0 and month > a.month then a.month, a.spent = month, 0 end
  giveBack(a)
  a.running = redis.call('ZCARD', a.leases)
  return a
end

local function fits(a)
  for i, rate in ipairs(a.rates) do
    if rate > 0 and a.debt[i] + reserved.amounts[i] * periods[i] > rate * periods[i] then return false end
  end
  if a.concurrent > 0 and a.running >= a.concurrent then return false end
  return a.budget == 0 or a.spent + a.held + reserved.cost <= a.budget
end

local function reserve(a)
  take(a, reserved.amounts, none)
  if a.budget > 0 then a.held = a.held + reserved.cost end
  redis.call('ZADD', a.leases, whole(now + lasts), id .. ':' .. reserved.text)
  a.running = a.running + 1
end

-- settle of a lease that ran out finds its reservation given back already, one
-- that was settled before finds nothing to do.
local function settle(a)
  local lease = id .. ':' .. reserved.text
  if redis.call('ZREM', a.leases, lease) == 1 then
    take(a, used.amounts, reserved.amounts)
    if a.budget > 0 then a.held = math.max(a.held - reserved.cost, 0) end
    a.running = a.running - 1
  elseif redis.call('ZREM', a.late, lease) == 1 then
    take(a, used.amounts, none)
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
    'd4', whole(a.debt[4]), 'month', whole(a.month), 'spent', whole(a.spent), 'held', whole(a.held))
  local days = a.budget > 0 and 40 or 1
  for _, key in ipairs({ a.state, a.leases, a.late }) do redis.call('PEXPIRE', key, days * 86400000) end
end

local accounts, answer = {}, 1
for n = 1, #KEYS / 3 do accounts[n] = open(n) end
if verb == 'reserve' then
  for n, a in ipairs(accounts) do
    if a.budget > 0 and a.month == 0 then answer = -n break end
    if not fits(a) then answer = 0 end
  end
end
for _, a in ipairs(accounts) do
  if verb == 'reserve' and answer == 1 then reserve(a) end
  if verb == 'settle' then settle(a) end
  if verb == 'charge' then charge(a) end
  if verb == 'renew' then redis.call('ZADD', a.leases, 'XX', whole(now + lasts), id .. ':' .. reserved.text) end
  save(a)
end
local told = { answer }
for _, a in ipairs(accounts) do
  for i = 1, 4 do told[#told + 1] = a.debt[i] end
  for _, n in ipairs({ a.month, a.spent, a.held, a.running }) do told[#told + 1] = n end
end
return told
