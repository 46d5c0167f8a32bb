// Browsers start no worker for a page that was opened as a file: there, the worker of search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script src="${new URL(url, location)}"><` + `/script>`;
      this.loaded = new Promise((resolve) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          inside.importScripts = (...urls) =>
            urls.reduce((before, script) => before.then(() => added(inside.document, script)), Promise.resolve());
          resolve(inside);
        };
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.loaded.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };

  const added = (inside, url) =>
    new Promise((resolve, reject) => {
      const script = inside.createElement("script");
      Object.assign(script, { src: url, onload: resolve, onerror: reject });
      inside.head.append(script);
    });
}
