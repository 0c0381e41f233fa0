"use strict";
// The filter of the error list: by kind, and by text that stands anywhere in an error or in its group's heading.
(() => {
  const form = document.getElementById("filter");
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  open();
  if (!form) return;
  const [kind, text, count] = ["kind", "text", "count"].map((name) => document.getElementById("filter-" + name));
  const fold = (shown) => shown.normalize("NFKC").toLowerCase();
  let kinds = null; // read when first needed: a page of thousands should come up at once
  const read = () =>
    [...document.querySelectorAll("details.kind")].map((box) => ({
      box,
      groups: [...box.querySelectorAll(".group")].map((group) => {
        const head = fold(group.querySelector("h4").textContent);
        const items = [...group.querySelectorAll("li")].map((item) => [item, head + "\n" + fold(item.textContent)]);
        return { group, items };
      }),
    }));
  const apply = () => {
    kinds ??= read();
    const wanted = fold(text.value.trim());
    let shown = 0;
    let all = 0;
    for (const { box, groups } of kinds) {
      const chosen = !kind.value || box.dataset.kind === kind.value;
      let inKind = 0;
      for (const { group, items } of groups) {
        let inGroup = 0;
        for (const [item, words] of items) {
          item.hidden = !words.includes(wanted);
          inGroup += !item.hidden;
        }
        group.hidden = !inGroup;
        inKind += inGroup;
        all += items.length;
      }
      box.hidden = !chosen || !inKind;
      if (!box.hidden) shown += inKind;
      if (!box.hidden && (wanted || kind.value)) box.open = true;
    }
    count.textContent = `${shown.toLocaleString("en")} of ${all.toLocaleString("en")} shown`;
  };
  let waiting = 0;
  text.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 150);
  });
  kind.addEventListener("change", apply);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
  form.hidden = false;
  if (kind.value || text.value) apply(); // a browser keeps what was typed when a page is loaded again
})();
