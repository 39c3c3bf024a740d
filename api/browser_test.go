//go:build browser

package api

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func browserRig(t *testing.T) *rig {
	return newStatefulRig(t, func(c *Config) {
		c.Demo = &Demo{Users: []DemoUser{{Name: "dave", Groups: []string{"approver"}}, {Name: "erin", Groups: []string{"approver"}}}}
	})
}

const shown = `(id) => { const el = document.getElementById(id); return !!el && !el.hidden; }`

func TestBrowserTellsOfANewDecisionWithoutAReload(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 1280, 900)
	b.open(r.ts.URL + "/")
	b.eval(`window.same = true`)
	require.Equal(t, "", b.text("alert"))
	r.proposed()
	b.until(`document.querySelector(".decision")`, "the banner appears")
	require.Equal(t, "Decision needed: CUT-1: orders-db eu to us", b.text("alert"))
	require.Contains(t, b.eval(`document.title`), "(1) ")
	require.Equal(t, "/ui/icon/1", b.eval(`document.getElementById("icon").getAttribute("href")`))
	require.Equal(t, true, b.eval(`window.same`), "it was not loaded anew")
	b.clean(r)
}

func TestBrowserKeepsWhatIsTypedAndStopsASignatureOfOldEvidence(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 1280, 900)
	r.proposed()
	b.open(r.ts.URL + "/cutovers/CUT-1")
	b.eval(`document.getElementById("waive-source_fenced").click(); document.getElementById("approve-reason").focus()`)
	b.press("eu power lost")
	kept := func() {
		t.Helper()
		require.Equal(t, "eu power lost", b.eval(`document.getElementById("approve-reason").value`))
		require.Equal(t, "approve-reason", b.eval(`document.activeElement.id`), "the focus stays")
	}

	// Something that is no part of the evidence changes: the page follows, and
	// nothing is said.
	r.votes(3, false, map[health.ObserverID][]string{"ap-1": {"us"}})
	b.until(`document.getElementById("why").textContent.includes("alone")`, "the votes are new")
	kept()
	require.Equal(t, true, b.eval(`document.getElementById("waive-source_fenced").checked`))
	require.Equal(t, false, b.eval(`(`+shown+`)("changed")`))

	// Somebody else signs: the page shows it.
	co := r.store.State().Cutovers["CUT-1"]
	require.Equal(t, 200, r.as("alice", "POST", "/v1/cutovers/CUT-1/approve", signing(co.Digest, waivers...)).status)
	b.until(`document.getElementById("signatures").textContent.includes("alice")`, "the signature shows")
	kept()
	require.Equal(t, false, b.eval(`document.querySelector("[data-signs]").disabled`))

	// The evidence changes: what is typed stays, and cannot be sent.
	require.Equal(t, 200, r.post("/v1/clusters/us/drain", `{"reason":"ingress upgrade"}`).status)
	r.walk()
	b.until(`(`+shown+`)("changed")`, "the page says so")
	kept()
	require.Equal(t, true, b.eval(`document.querySelector("[data-signs]").disabled`))
	require.Contains(t, b.text("signatures"), "1 earlier signature is void")

	// Look again keeps the reason and says what differs.
	b.eval(`document.querySelector("[name=look]").click()`)
	b.until(`document.getElementById("notice")`, "the outcome")
	require.Contains(t, b.text("notice"), "destination_healthy: was clean, is blocked")
	require.Equal(t, "notice", b.eval(`document.activeElement.id`), "an outcome gets the focus")
	require.Equal(t, "eu power lost", b.eval(`document.getElementById("approve-reason").value`))
	require.Empty(t, r.store.State().Cutovers["CUT-1"].Signatures)
	b.clean(r)
}

func TestBrowserSignsByKeyboardAndWatchesTheMove(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 360, 740)
	co := r.proposed()
	require.Equal(t, 200, r.sign("alice", co, waivers...).status)
	for _, path := range []string{"/", "/cutovers", "/cutovers/new?service=orders-db", "/cutovers/CUT-1"} {
		b.open(r.ts.URL + path)
		require.LessOrEqual(t, b.eval(`document.documentElement.scrollWidth`), 360.0, "%s fits a phone", path)
	}
	b.eval(`document.getElementById("approve-reason").focus()`)
	b.press("ticket 8812")
	b.key(kb.Tab)
	require.Equal(t, "approve-service", b.eval(`document.activeElement.id`))
	b.press("orders-db")
	b.key(kb.Enter)
	b.until(`location.search === "?done=approve" && document.getElementById("notice")`, "signed")
	require.Contains(t, b.text("notice"), "signed 2 of 2 as dave")
	b.until(`document.getElementById("live").textContent === "live"`, "live again")
	r.walk()
	b.until(`document.getElementById("head").textContent.includes("under way")`, "it moves")
	b.until(`document.getElementById("acts").textContent.includes("Abort as dave")`, "the forms follow, nobody has typed")
	r.walk("ap-1", "eu-1", "us-1")
	b.until(`document.querySelector("#stages .done:nth-child(4)")`, "published")
	b.until(`document.getElementById("head").textContent.includes("done")`, "done")
	b.clean(r)
}

func TestBrowserGreysOutWhenTheStreamIsCut(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 1280, 900)
	b.open(r.ts.URL + "/")
	require.Equal(t, false, b.eval(`document.body.classList.contains("cut")`))
	r.server.stopOnce.Do(func() { close(r.server.stopping) })
	r.ts.CloseClientConnections()
	require.NoError(t, r.ts.Listener.Close())
	b.until(`document.body.classList.contains("cut")`, "it greys out")
	require.Regexp(t, `what you see is \d+s old`, b.text("stream"))
	b.accessible("overview-cut")
	b.clean(r)
}
