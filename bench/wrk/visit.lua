-- Sends one request after the other from a file of codes, and writes the counts in
-- one line. Requests are made before the measuring begins, so that a request costs one
-- look-up.
--
--   wrk ... -s visit.lua URL -- CODELENGTH

local requests, at = {}, 0

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = assert(file:read("*a"))
  file:close()
  return text
end

function init(args)
  local codes, head, tail, length = read("codes"), read("head"), read("tail"), tonumber(args[1])
  for first = 1, #codes - length + 1, length do
    requests[#requests + 1] = head .. codes:sub(first, first + length - 1) .. tail
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format("\nvisited %d %d %d %d %d %d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.timeout, e.status))
end
