// The start page. Everything from the API is shown as text, never as markup.
"use strict";
(function () {
  const key = "streaming-hub-token";
  const shown = 50; // rows
  const fields = "id state attemptCount createdAt explanation event { eventType source } eventSubscription { name }";
  const $ = (id) => document.getElementById(id);

  function takeToken() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (!given) return false;
    sessionStorage.setItem(key, given);
    history.replaceState(null, "", location.pathname + location.search);
    return true;
  }

  function post(query, variables, accept, signal) {
    return fetch("/graphql", {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Accept: accept,
        Authorization: "Bearer " + sessionStorage.getItem(key),
      },
      body: JSON.stringify({ query: query, variables: variables }),
      signal: signal,
    });
  }

  class Refused extends Error {}

  async function ask(query, variables) {
    const response = await post(query, variables, "application/json");
    const answer = await response.json();
    if (answer.errors) {
      const first = answer.errors[0];
      const code = (first.extensions || {}).code;
      throw code === "UNAUTHENTICATED" ? new Refused(first.message) : new Error(first.message);
    }
    return answer.data;
  }

  // One row per delivery, the newest first.
  function show(delivery) {
    if (!delivery) return;
    const body = $("rows");
    let row = document.getElementById(delivery.id);
    if (!row) {
      row = document.createElement("tr");
      row.id = delivery.id;
      for (let i = 0; i < 6; i++) row.insertCell();
      const after = Array.from(body.rows).find((r) => r.dataset.order < delivery.id);
      row.dataset.order = delivery.id; // ids sort by time
      body.insertBefore(row, after || null);
      while (body.rows.length > shown) body.deleteRow(-1);
    }
    const event = delivery.event ? delivery.event.eventType + " from " + delivery.event.source : "past its retention";
    const texts = [
      new Date(delivery.createdAt).toLocaleString(),
      event,
      delivery.eventSubscription ? delivery.eventSubscription.name : "deleted",
      delivery.state,
      String(delivery.attemptCount),
      delivery.explanation,
    ];
    texts.forEach((text, i) => (row.cells[i].textContent = text));
    row.cells[3].className = delivery.state;
    row.cells[4].className = "number";
    $("empty").hidden = true;
  }

  async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      for (const part of parts) {
        const data = part.split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trim()).join("\n");
        if (data) yield JSON.parse(data);
      }
    }
  }

  // Follows the feed from a cursor and goes on from the last item whenever the
  // connection is lost.
  async function follow(cursor, session) {
    const query =
      "subscription ($after: String) { deliveryOutcomes(after: $after) { " +
      "... on DeliveryOutcome { cursor delivery { " + fields + " } } ... on LiveGap { cursor missed } } }";
    for (let wait = 500; !session.signal.aborted; wait = Math.min(wait * 2, 10000)) {
      try {
        const response = await post(query, { after: cursor }, "text/event-stream", session.signal);
        if (response.status === 401) return logOut("The API token is no longer valid.");
        if (!response.ok) throw new Error(response.statusText);
        $("live").textContent = "live";
        for await (const message of events(response)) {
          if (message.errors) throw new Error(message.errors[0].message);
          const item = message.data.deliveryOutcomes;
          cursor = item.cursor;
          wait = 500;
          show(item.delivery);
        }
      } catch (error) {
        if (session.signal.aborted) return;
      }
      $("live").textContent = "connection lost, trying again";
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  let session = null;

  async function logIn() {
    if (session) session.abort();
    session = new AbortController();
    $("login").hidden = true;
    try {
      const data = await ask(
        "query ($first: Int!) { viewer { name role scope tenantId } deliveries(first: $first) { nodes { " + fields + " } liveCursor } }",
        { first: shown }
      );
      const v = data.viewer;
      $("viewer").textContent = v.name + " · " + v.role + " · " + (v.scope === "PLATFORM" ? "all tenants" : "tenant " + v.tenantId);
      $("logout").hidden = false;
      $("deliveries").hidden = false;
      $("rows").replaceChildren();
      $("empty").hidden = data.deliveries.nodes.length > 0;
      data.deliveries.nodes.forEach(show);
      follow(data.deliveries.liveCursor, session);
    } catch (error) {
      if (error instanceof Refused) return logOut(error.message);
      $("viewer").textContent = "The hub does not answer: " + error.message + " Trying again …";
      setTimeout(logIn, 2000);
    }
  }

  function logOut(message) {
    if (session) session.abort();
    sessionStorage.removeItem(key);
    $("viewer").textContent = message || "";
    $("deliveries").hidden = true;
    $("logout").hidden = true;
    $("login").hidden = false;
  }

  $("login").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(key, $("token").value.trim());
    $("token").value = "";
    logIn();
  });
  $("logout").addEventListener("click", () => logOut());
  window.addEventListener("hashchange", () => takeToken() && logIn());
  takeToken();
  if (sessionStorage.getItem(key)) logIn();
  else logOut();
})();
