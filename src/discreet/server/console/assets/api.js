// Calls to this server. Errors are problem documents (RFC 9457): what is wrong, where, and what to do.

export class Problem extends Error {
  constructor(document, status) {
    super(document.detail || document.title || "The server gave no answer.");
    this.status = status;
    this.code = document.code || "";
    this.facts = document.facts || {};
  }

  // In words, without the line of text and the mark that a terminal shows
  get words() {
    const { problem, hint } = this.facts;
    if (problem) return hint ? `${problem}; ${hint}` : problem;
    return this.message.split("\n")[0];
  }
}

export async function send(path, { method, body, accept = "application/json", headers = {}, signal } = {}) {
  const given = body === undefined ? {} : { "content-type": "application/json" };
  let response;
  try {
    response = await fetch(path, {
      method: method || (body === undefined ? "GET" : "POST"),
      headers: { accept, ...given, ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "The server cannot be reached. Nothing was lost; try again." }, 0);
  }
  if (response.status === 401) {
    location.assign("/console/sign-in");
    throw new Problem({ detail: "You are signed out." }, 401);
  }
  if (!response.ok) {
    let problem = {};
    try {
      problem = await response.json();
    } catch {
      // what is no document has no words
    }
    throw new Problem(problem, response.status);
  }
  return response;
}

export const json = async (path, options) => (await send(path, options)).json();

export const dataset = document.body.dataset.dataset;
// What this tab remembers of its questions: by token, since one browser may serve several people
export const memory = `discreet:${dataset}:${document.body.dataset.token}`;
export const v1 = (path) => `/v1/datasets/${encodeURIComponent(dataset)}${path}`;
export const here = (path) => `/console/datasets/${encodeURIComponent(dataset)}${path}`;
