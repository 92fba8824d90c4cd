"use strict";
// Shows new outcomes without a reload. Every page works without this script.
(() => {
  const main = document.getElementById("main");
  const news = document.getElementById("news");
  if (!main || !news) return;
  let loading = false;
  const isInUse = () => {
    const selection = document.getSelection();
    const inside = document.activeElement !== main && main.contains(document.activeElement);
    return inside || (selection && !selection.isCollapsed) || main.querySelector("details[open]");
  };
  const load = async () => {
    if (loading) return;
    // A reader in the middle of the page keeps it as it is.
    if (isInUse()) {
      news.textContent = "There are new outcomes. Load the page again to see them.";
      return;
    }
    loading = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("main");
      if (!fresh || isInUse()) return;
      main.replaceChildren(...fresh.childNodes);
      news.textContent = "";
      if (fresh.dataset.again) wait(fresh.dataset.again);
    } catch {
      news.textContent = "The window does not answer.";
    } finally {
      loading = false;
    }
  };
  const wait = (seconds) => setTimeout(load, 1000 * Number(seconds));
  if (main.dataset.again) wait(main.dataset.again);
  if (main.dataset.events && window.EventSource) {
    new EventSource(main.dataset.events).onmessage = load;
  }
})();
