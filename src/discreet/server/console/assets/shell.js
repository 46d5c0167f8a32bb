// On every page: signing out forgets what this tab remembers.

import { send } from "./api.js";

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
