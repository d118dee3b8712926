// Sets the colours before the first rendering: dark, light, or the system's.
"use strict";
(() => {
  const kept = (() => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage is disabled: use the system's
    }
  })();
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
})();
