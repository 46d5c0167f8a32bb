// On every page: what scrolls can be reached by the keyboard, the way around stands where one is, and signing out forgets what this tab remembers.

import { send } from "./api.js";
import { reachable } from "./dom.js";

reachable(document);
document.querySelector("nav.ways [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });

for (const button of document.querySelectorAll("[data-sign-out]")) {
  button.addEventListener("click", async () => {
    sessionStorage.clear();
    try {
      await send("/console/sign-out", { method: "POST" });
    } finally {
      location.assign("/console/sign-in");
    }
  });
}
