// Debian's Chromium for test_preview.py: a line of JSON comes in for each thing to be done, one goes out when
// it is done. When the lines end, so does the browser.
import readline from 'node:readline';
import { chromium } from 'playwright-core';

const timeout = 180_000; // it hangs then; nothing is measured by it
const browser = await chromium.launch({
  executablePath: process.argv[2], headless: true, chromiumSandbox: process.getuid() !== 0, timeout });
const page = await browser.newPage({ viewport: { width: 800, height: 450 } });
page.setDefaultTimeout(timeout);

const seen = { navigations: 0, sockets: [], complaints: [] };
page.on('framenavigated', (frame) => { seen.navigations += frame === page.mainFrame(); });
page.on('pageerror', (error) => seen.complaints.push(String(error)));
page.on('console', (line) => { if (line.type() === 'error') seen.complaints.push(line.text()); });
page.on('websocket', (socket) => {
  const about = { url: socket.url(), is_open: true, received: [] };
  seen.sockets.push(about);
  socket.on('framereceived', ({ payload }) => about.received.push(String(payload)));
  socket.on('close', () => { about.is_open = false; });
});

const deeds = {
  open: ({ url }) => page.goto(url),
  click: ({ selector }) => page.click(selector),
  run: ({ script }) => page.evaluate(script),
  wait: ({ selector }) => page.locator(selector).waitFor(),
  screenshot: ({ path }) => page.screenshot({ path }),
  seen: () => seen,
};
const returning = new Set(['run', 'seen']);

console.log(JSON.stringify({ done: browser.version() }));
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { deed, ...args } = JSON.parse(line);
  try {
    const value = await deeds[deed](args);
    console.log(JSON.stringify({ done: returning.has(deed) ? value ?? null : null }));
  } catch (error) {
    console.log(JSON.stringify({ failed: String(error), text: await page.innerText('body').catch(String) }));
  }
}
await browser.close();
