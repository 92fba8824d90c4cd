"use strict";
// Shows new outcomes without a reload. Every page works without this script.
(() => {
  const main = document.getElementById("main");
  const news = document.getElementById("news");
  if (!main || !news) return;
  let loading = false;
  // True if something came while the page was loading: the answer may be older.
  let missed = false;
  let timer;
  // Until the page says no more that it is to be loaded again, whatever became of this time.
  const wait = () => {
    clearTimeout(timer);
    if (main.dataset.again && !document.hidden) timer = setTimeout(load, 1000 * Number(main.dataset.again));
  };
  const isInUse = () => {
    const selection = document.getSelection();
    const inside = document.activeElement !== main && main.contains(document.activeElement);
    return inside || (selection && !selection.isCollapsed) || main.querySelector("details[open]");
  };
  const load = async () => {
    if (loading) {
      missed = true;
      return;
    }
    // A reader in the middle of the page keeps it as it is.
    if (isInUse()) {
      news.textContent = "There are new outcomes. Load the page again to see them.";
      wait();
      return;
    }
    loading = true;
    missed = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("main");
      if (!fresh || isInUse()) return;
      main.replaceChildren(...fresh.childNodes);
      news.textContent = "";
      if (fresh.dataset.again) main.dataset.again = fresh.dataset.again;
      else delete main.dataset.again;
    } catch {
      news.textContent = "The window does not answer.";
    } finally {
      loading = false;
      wait();
      if (missed) load();
    }
  };
  // A browser has six connections to a server in all its tabs, so only a page that is seen holds one.
  let events;
  const listen = () => {
    if (document.hidden) {
      if (events) events.close();
      events = undefined;
    } else if (!events && main.dataset.events && window.EventSource) {
      events = new EventSource(main.dataset.events);
      events.onmessage = load;
    }
  };
  document.addEventListener("visibilitychange", () => {
    listen();
    wait();
    // The stream does not tell what came before it began.
    if (events) load();
  });
  wait();
  listen();
})();
