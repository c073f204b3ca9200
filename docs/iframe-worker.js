// Browsers start no worker from a file, so in a site that is opened from disk the search runs in a
// hidden frame. The offline plugin would fetch such a script from the network; a name with
// "iframe-worker" keeps it from that.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #inside = new Promise((started) => (this.started = started));

    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><body></body>";
      frame.addEventListener("load", () => this.#start(frame.contentWindow, url), { once: true });
      document.body.append(frame);
    }

    #start(inside, url) {
      inside.postMessage = (data) =>
        setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      const script = inside.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => this.started(inside));
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.#inside.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
