// The owner's acts: verifying the record, revoking tokens.

import { json, send, v1 } from "./api.js";
import { failure, fill, find, h, loading } from "./dom.js";

find("verify")?.addEventListener("click", async () => {
  fill(find("verdict"), loading("Walking the chain …"));
  try {
    const found = await json(v1("/ledger/verify"), { method: "POST" });
    fill(find("verdict"), h("p", { class: `verdict ${found.verified ? "good" : "bad"}` }, h("b", {}, found.verified ? "Whole. " : "Broken. "), found.words));
  } catch (error) {
    fill(find("verdict"), failure(error));
  }
});

for (const button of document.querySelectorAll("[data-revoke]")) {
  button.addEventListener("click", async () => {
    if (button.dataset.sure !== "yes") {
      button.dataset.sure = "yes";
      button.textContent = "Revoke for good?";
      return;
    }
    button.disabled = true;
    try {
      await send(v1(`/tokens/${encodeURIComponent(button.dataset.revoke)}`), { method: "DELETE" });
      button.closest("tr").children[2].textContent = "revoked";
      find("remark").className = "soft";
      find("remark").textContent = `The token of ${button.closest("tr").children[0].textContent} is revoked.`;
      find("remark").focus();
      button.remove();
    } catch (error) {
      find("remark").className = "refusal";
      find("remark").textContent = error.words || error.message;
      button.disabled = false;
    }
  });
}
