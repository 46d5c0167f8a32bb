// The door: the token goes out once, in the body of a request, and stays nowhere. Nor do questions of who was here before.

import { send } from "./api.js";
import { find } from "./dom.js";

sessionStorage.clear();
find("door").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = find("token");
  const button = event.target.querySelector("button");
  button.disabled = true;
  find("refusal").textContent = "";
  try {
    await send("/console/sign-in", { body: { token: field.value.trim() } });
    field.value = "";
    location.assign("/console");
  } catch (error) {
    find("refusal").textContent = error.words || error.message;
    field.select();
    button.disabled = false;
  }
});
