// Sets the colours before anything is drawn: dark, light, or as the system has it.
"use strict";
(() => {
  const kept = (() => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage is off: as the system has it
    }
  })();
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
})();
