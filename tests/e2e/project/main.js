const greeting = 'Hello from the sandbox';

// In memory only: a navigation would lose it, a hot reload does not.
const state = (globalThis.state ??= { clicks: 0 });

const show = (id, text) => {
  document.getElementById(id).textContent = text;
};

document.getElementById('ask').onclick = async () => {
  const answer = await fetch('/data.json', { cache: 'no-store' });
  const { word } = await answer.json();
  state.clicks += 1;
  show('answer', `${word}, click ${state.clicks}`);
};

show('greeting', greeting);
import.meta.hot?.accept();
