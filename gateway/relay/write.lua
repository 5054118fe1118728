-- Adds ARGV[4], unless it is empty, to the stream KEYS[2] of the leader ARGV[1], and
-- lets its lease KEYS[1] and the stream live for ARGV[2] and ARGV[3] milliseconds from
-- now; 0 ends the lease. Without the lease it does nothing and returns 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
	return 0
end
if ARGV[4] ~= '' then
	redis.call('XADD', KEYS[2], '*', 'e', ARGV[4])
end
if ARGV[2] == '0' then
	redis.call('DEL', KEYS[1])
else
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
