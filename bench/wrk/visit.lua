-- Sends one request after the other from a file of codes, and writes the counts in
-- one line. Requests are made before the measuring begins: what is left for a request is
-- to look one up.
--
--   wrk ... -s visit.lua URL -- CODES CODELENGTH HEAD TAIL THREADS

local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

local requests, count, at = {}, 0, 0

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = assert(file:read("*a"))
  file:close()
  return text
end

function init(args)
  local codes, length = read(args[1]), tonumber(args[2])
  local head, tail, step = read(args[3]), read(args[4]), tonumber(args[5])
  for first = 1 + number * length, #codes - length + 1, step * length do
    count = count + 1
    requests[count] = head .. codes:sub(first, first + length - 1) .. tail
  end
  assert(count > 0, "too few codes")
end

function request()
  at = at + 1
  if at > count then
    at = 1
  end
  return requests[at]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format("visited requests=%d microseconds=%d p50=%d p99=%d connect=%d read=%d write=%d timeout=%d status=%d\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), e.connect, e.read, e.write, e.timeout, e.status))
end
