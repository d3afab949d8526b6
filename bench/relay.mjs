// What a small relay in Node does: `http` for its clients, `fetch` to the upstream, the JSON taken apart and written again. It verifies
// nothing.
//
//   node relay.mjs PORT STUB_PORT
import http from 'node:http';

const [port, stub] = process.argv.slice(2).map(Number);
const server = http.createServer(async (request, response) => {
  try {
    for await (const _ of request);
    const answer = await fetch(`http://127.0.0.1:${stub}/v1.2/auth/client-tokens`, {
      method: 'POST',
      headers: { authorization: `Bearer sk-${'b'.repeat(43)}`, 'content-type': 'application/json' },
      body: JSON.stringify({ end_user_id: 'user-1', scopes: ['food_logs:read', 'food_logs:write', 'foods:read'], ttl_seconds: 1800 }),
    });
    const body = JSON.stringify(await answer.json());
    response.writeHead(answer.status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
    response.end(body);
  } catch {
    response.writeHead(502).end();
  }
});
server.keepAliveTimeout = 75_000;
server.listen(port, '127.0.0.1');
