// The load that every release must bear: 80 % of requests follow links, 20 % create
// some. PATTERN says how many users there are when; SHORT makes all of it some seconds
// long. API, KEY and EDGES (with commas) say where.
import http from 'k6/http';
import { check, sleep } from 'k6';

const short = __ENV.SHORT === '1';
const seconds = (full, brief) => `${short ? brief : full}s`;

const patterns = {
  ramp: {
    executor: 'ramping-vus',
    startVUs: 0,
    stages: [
      { duration: seconds(60, 8), target: 50 },
      { duration: seconds(120, 8), target: 50 },
    ],
  },
  spike: {
    executor: 'ramping-vus',
    startVUs: 50,
    stages: [
      { duration: seconds(20, 3), target: 50 },
      { duration: seconds(5, 1), target: 100 },
      { duration: seconds(30, 6), target: 100 },
      { duration: seconds(5, 1), target: 50 },
      { duration: seconds(20, 3), target: 50 },
    ],
  },
  soak: {
    executor: 'constant-vus',
    vus: 20,
    duration: seconds(300, 12),
  },
};

export const options = {
  scenarios: { [__ENV.PATTERN]: patterns[__ENV.PATTERN] },
  thresholds: {
    http_req_duration: ['p(95)<500', 'p(99)<1000'],
    http_req_failed: ['rate<0.01'],
    http_reqs: ['rate>100'],
    checks: ['rate>0.99'],
  },
  summaryTrendStats: ['med', 'p(95)', 'p(99)', 'max'],
};

const edges = __ENV.EDGES.split(',');
const pick = (list) => list[Math.floor(Math.random() * list.length)];
const target = (n) => `https://www.example.com/some/path/of/a/shop/${n}?utm_source=newsletter&x=ü`;

function create(n) {
  return http.post(`${__ENV.API}/api/v1/urls`, JSON.stringify({ original_url: target(n) }), {
    headers: { 'Content-Type': 'application/json', 'X-Api-Key': __ENV.KEY },
    tags: { name: 'create' },
  });
}

export function setup() {
  const links = [];
  for (let i = 0; i < 100; i++) {
    links.push(create(`setup/${i}`).json('short_code'));
  }
  sleep(0.5); // the edges have them long before
  return links;
}

export default function follow(links) {
  if (Math.random() < 0.2) {
    const n = `${__VU}/${__ITER}`;
    const made = create(n);
    check(made, {
      'a link is created': (r) => r.status === 201,
      'its target is given back': (r) => r.json('original_url') === target(n),
    });
  } else {
    const found = http.get(`${pick(edges)}/${pick(links)}`, { redirects: 0, tags: { name: 'follow' } });
    check(found, {
      'a link redirects': (r) => r.status === 302,
      'to its target': (r) => (r.headers.Location || '').startsWith('https://www.example.com/some/path/of/a/shop/setup/'),
    });
  }
  sleep(0.1);
}

export function handleSummary(data) {
  return { [__ENV.SUMMARY]: JSON.stringify(data) };
}
