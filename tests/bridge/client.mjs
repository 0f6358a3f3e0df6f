// Cloudflare's client of the OpenAI Agents SDK, as npm has it, against a berthd.
// usage: node client.mjs CASE URL     with the token in BERTH_TEST_TOKEN
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as cloudflare from '@openai/agents-extensions/sandbox/cloudflare';
import { Manifest, dir, file, s3Mount } from '@openai/agents-core/sandbox';

const [, , wanted, workerUrl] = process.argv;
const apiKey = process.env.BERTH_TEST_TOKEN;
const text = (bytes) => new TextDecoder().decode(bytes);
const client = (more = {}) => new cloudflare.CloudflareSandboxClient({ workerUrl, apiKey, ...more });

const manifest = new Manifest({
  root: '/workspace',
  entries: {
    'README.md': file({ content: '# A task\n' }),
    src: dir({ children: { 'main.py': file({ content: 'print(6 * 7)\n' }), 'ünïcode name.txt': file({ content: 'ü' }) } }),
    scratch: dir({ ephemeral: true, children: { notes: file({ content: 'not kept' }) } }),
  },
  environment: { GREETING: "it's me" },
});

// The rejection's error; what it says is told if it is none of the words.
async function refused(promise, ...words) {
  const error = await promise.then(() => assert.fail('it was not refused'), (e) => e);
  const all = `${error.name}: ${error.message} ${JSON.stringify(error.details ?? {})}`;
  for (const word of words) assert.ok(all.includes(word), `"${word}" is not in: ${all}`);
  return error;
}

async function exec(session, cmd, more = {}) {
  return await session.execCommand({ cmd, ...more });
}

async function with_session(use, options = {}) {
  const session = await client(options).create({ manifest });
  try {
    await use(session);
  } finally {
    await session.close();
  }
}

const cases = {
  async commands() {
    await with_session(async (session) => {
      assert.match(session.state.sandboxId, /^[A-Za-z0-9_-]+$/u);
      assert.equal(await session.running(), true);
      assert.match(await exec(session, 'python3 src/main.py'), /exited with code 0[^]*\n42\s*$/u);
      assert.match(await exec(session, 'echo "$GREETING"; pwd'), /it's me\n\/workspace/u);
      assert.match(await exec(session, 'pwd', { workdir: 'src' }), /\/workspace\/src/u);
      assert.match(await exec(session, 'echo out; echo err >&2; exit 7'), /code 7[^]*out\nerr/u);
      assert.match(await exec(session, 'kill -9 $$'), /code 137/u);
      const long = await exec(session, 'seq 200000');
      assert.ok(long.trimEnd().endsWith('\n199999\n200000') && long.length > 1200000, `${long.length}`);
      const many = await Promise.all(Array.from({ length: 16 }, (_, i) => exec(session, `echo number ${i}`)));
      many.forEach((said, i) => assert.match(said, new RegExp(`number ${i}\\s*$`, 'u')));
    }, { timeoutMs: 60000, createTimeoutMs: 60000, requestTimeoutMs: 60000, exposedPorts: [8080] });
  },

  async timeout() {
    await with_session(async (session) => {
      const said = await exec(session, 'echo begun; sleep 100').catch((e) => `${e.message} ${JSON.stringify(e.details)}`);
      assert.match(said, /begun|timeout|timed out/u);
      assert.match(await exec(session, 'echo on'), /on\s*$/u);
    }, { timeoutMs: 1500 });
  },

  async files() {
    await with_session(async (session) => {
      assert.equal(text(await session.readFile({ path: 'README.md' })), '# A task\n');
      assert.equal(text(await session.readFile({ path: 'src/ünïcode name.txt' })), 'ü');
      assert.equal(text(await session.readFile({ path: 'README.md', maxBytes: 3 })), '# A');
      assert.equal(await session.pathExists('src/main.py'), true);
      assert.equal(await session.pathExists('src/none'), false);
      assert.equal(await session.directoryExists('src'), true);
      await refused(session.readFile({ path: 'none' }), 'SandboxWorkspaceReadNotFoundError');
      await refused(session.readFile({ path: 'src' }), 'invalid_request');
      await refused(session.readFile({ path: '/etc/passwd' }), 'InvalidManifestPath');
      await exec(session, 'ln -s /etc/passwd out; head -c 3000000 /dev/urandom >big; sha256sum <big >sum');
      await refused(session.readFile({ path: 'out' }));
      const big = await session.readFile({ path: 'big' });
      const hash = createHash('sha256').update(big).digest('hex');
      assert.equal(text(await session.readFile({ path: 'sum' })).split(' ')[0], hash);
      await session.materializeEntry({ path: 'added/later.txt', entry: file({ content: 'later' }) });
      assert.equal(text(await session.readFile({ path: 'added/later.txt' })), 'later');
    });
  },

  async editor() {
    await with_session(async (session) => {
      const editor = session.createEditor();
      await editor.createFile({ type: 'create_file', path: 'new/a b.txt', diff: '+one\n+two\n+three' });
      assert.equal(text(await session.readFile({ path: 'new/a b.txt' })), 'one\ntwo\nthree');
      await refused(editor.createFile({ type: 'create_file', path: 'new/a b.txt', diff: '+x' }), 'already exists');
      await editor.updateFile({ type: 'update_file', path: 'new/a b.txt', diff: '@@\n one\n-two\n+2\n three' });
      assert.equal(text(await session.readFile({ path: 'new/a b.txt' })), 'one\n2\nthree');
      await editor.updateFile({ type: 'update_file', path: 'new/a b.txt', moveTo: 'moved/c', diff: '@@\n-one\n+1\n 2' });
      assert.equal(text(await session.readFile({ path: 'moved/c' })), '1\n2\nthree');
      assert.equal(await session.pathExists('new/a b.txt'), false);
      await refused(editor.updateFile({ type: 'update_file', path: 'none', diff: '@@\n-x\n+y' }), 'NotFound');
      await editor.deleteFile({ type: 'delete_file', path: 'moved/c' });
      assert.equal(await session.pathExists('moved/c'), false);
      await refused(editor.createFile({ type: 'create_file', path: '../x', diff: '+x' }));
    });
  },

  async archives() {
    const look = "find . -mindepth 1 -path ./scratch -prune -o -printf '%P %y %m %s %l %T@\\n' | LC_ALL=C sort; "
      + "find . -mindepth 1 -path ./scratch -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum";
    const body = (said) => said.slice(said.indexOf('Output:'));
    let archive, before;
    await with_session(async (session) => {
      await exec(session, "mkdir -p deep/er; ln -s ../README.md deep/link; chmod 750 deep; chmod 755 src/main.py; "
        + "head -c 1000000 /dev/urandom >deep/er/random; : >empty; touch -d 2001-02-03 empty; "
        + "truncate -s 5M holes; echo end >>holes; "
        + "n=$(printf 'n%.0s' $(seq 200)); mkdir -p $n/$n; echo long >$n/$n/$n");
      before = body(await exec(session, look));
      assert.ok(before.split('\n').length > 20, before);
      archive = await session.persistWorkspace();
      assert.equal(archive.length % 512, 0);
      assert.ok(!text(archive).includes('not kept'), 'what is ephemeral was kept');
    });
    await with_session(async (session) => {
      await session.hydrateWorkspace(archive);
      assert.equal(body(await exec(session, look)), before);
      assert.equal(text(await session.readFile({ path: 'scratch/notes' })), 'not kept');
      await refused(session.hydrateWorkspace(new Uint8Array(1024).fill(120)));
      await session.hydrateWorkspace(new Uint8Array(1024)); // the client's own empty archive
      assert.equal(body(await exec(session, look)), before);
    });
  },

  async terminals() {
    await with_session(async (session) => {
      assert.equal(session.supportsPty(), true);
      const first = await exec(session, 'tty; stty size; echo "$GREETING"; read line; echo "got $line"', { tty: true });
      const id = Number(first.match(/session ID (\d+)/u)?.[1]);
      assert.ok(id > 0, first);
      assert.match(first, /\/dev\/pts\/\d+[^]*24 80[^]*it's me/u);
      assert.match(await session.writeStdin({ sessionId: id, chars: 'a line ü\n' }), /got a line ü/u);
      assert.match(await session.writeStdin({ sessionId: id, chars: 'exit 3\n', yieldTimeMs: 5000 }), /exited with code 3/u);
      const long = await exec(session, 'exec sleep 1000', { tty: true });
      assert.match(long, /session ID \d+/u); // it ends with the session, below
    });
  },

  async ends() {
    const session = await client().create({ manifest });
    assert.equal(await session.running(), true);
    await session.delete();
    await session.close(); // twice is once
  },

  async mounts() {
    await with_session(async (session) => {
      const error = await refused(session.mountBucket({ bucket: 'b', mountPath: '/workspace/data', options: {} }),
        'SandboxMountError', '501', 'buckets cannot be mounted');
      assert.equal(error.details?.status, 501);
      await refused(session.unmountBucket('/workspace/data'), '501');
    });
    const mounted = new Manifest({ root: '/workspace', entries: { data: s3Mount({
      bucket: 'b', mountStrategy: new cloudflare.CloudflareBucketMountStrategy() }) } });
    await refused(client().create({ manifest: mounted }), 'buckets cannot be mounted');
  },

  async tokens() {
    await with_session(async (session) => assert.equal(await session.running(), true));
    await refused(client({ apiKey: 'not-the-token-of-this-daemon-at-all' }).create({ manifest }), '401', 'unauthorized');
  },
};

await cases[wanted]();
