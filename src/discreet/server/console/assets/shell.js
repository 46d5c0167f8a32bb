// On every page: what scrolls can be reached by the keyboard, and signing out forgets what this tab remembers.

import { send } from "./api.js";
import { reachable } from "./dom.js";

reachable(document);

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
