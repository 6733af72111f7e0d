// The GraphiQL page. The API token comes from the start page by way of
// sessionStorage, or from #token=… in the address, and goes to our own origin
// only.
"use strict";
(function () {
  const key = "streaming-hub-token";
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(key, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  const token = sessionStorage.getItem(key);
  const place = document.getElementById("graphiql");
  if (!token) {
    place.className = "message";
    place.textContent = "There is no API token in this tab. Log in on the start page (/) or open /graphiql#token=shub_…";
    return;
  }
  const authorization = "Bearer " + token;
  const socketUrl = location.origin.replace(/^http/, "ws") + "/graphql";
  const fetcher = GraphiQL.createFetcher({
    url: "/graphql",
    headers: { Authorization: authorization },
    wsClient: graphqlWs.createClient({ url: socketUrl, connectionParams: { authorization: authorization } }),
  });
  ReactDOM.createRoot(place).render(
    React.createElement(GraphiQL, {
      fetcher: fetcher,
      defaultEditorToolsVisibility: true,
      shouldPersistHeaders: false,
      defaultQuery:
        "# Streaming Hub\n\n" +
        "query Newest {\n  viewer { name role scope tenantId }\n" +
        "  deliveries(first: 10) {\n    nodes { id state attemptCount explanation event { eventType source seq } }\n" +
        "    pageInfo { hasNextPage endCursor }\n    liveCursor\n  }\n}\n\n" +
        "subscription Live {\n  deliveryOutcomes {\n    __typename\n" +
        "    ... on DeliveryOutcome { cursor deliveryId attemptNumber state status errorClass at }\n" +
        "    ... on LiveGap { cursor after through missed }\n  }\n}\n",
    })
  );
})();
