-- Takes the lease of an answer for ARGV[2] milliseconds, or returns whose it is.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
	return false
end
return redis.call('GET', KEYS[1])
