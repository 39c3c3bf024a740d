//go:build browser

package api

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// picturesEnv names a folder that the pages are drawn to, for people to look at.
const picturesEnv = "QUORATE_PICTURES"

// barriers returns what axe finds of the page that keeps people out.
const barriers = `axe.run(document, {resultTypes: ["violations"], preload: false}).then((r) => r.violations
	.filter((v) => v.impact === "serious" || v.impact === "critical")
	.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary.replace(/\s+/g, " "))).join("\n"))`

// accessible asserts that the page as it is now keeps nobody out, wide and narrow,
// light and dark.
func (b *browser) accessible(name string) {
	b.t.Helper()
	axe, err := os.ReadFile(filepath.Join("testdata", "axe.min.js"))
	require.NoError(b.t, err)
	b.do(chromedp.Evaluate[chromedp.Void](string(axe)))
	for _, width := range []int64{1280, 360} {
		for _, scheme := range []string{"light", "dark"} {
			b.do(chromedp.EmulateViewport(width, 900))
			b.scheme(scheme)
			b.picture(fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
			require.LessOrEqual(b.t, b.eval(`document.documentElement.scrollWidth`), float64(width), "%s fits", name)
			for barrier := range strings.SplitSeq(b.eval(barriers).(string), "\n") {
				require.Empty(b.t, barrier, "%s, %d wide, %s", name, width, scheme)
			}
		}
	}
}

func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv(picturesEnv)
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name), png, 0o644))
}

func TestBrowserFindsNoBarrierOnAnyPage(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 1280, 900)
	b.open(r.ts.URL + "/")
	b.accessible("overview-calm")
	b.open(r.ts.URL + "/cutovers")
	b.accessible("list-empty")
	b.open(r.ts.URL + "/cutovers/new?service=orders-db")
	b.accessible("preview")
	b.load(r.ts.URL + "/cutovers/new?service=nope")
	b.accessible("nothing-to-move")

	r.down(3, "eu")
	co := r.proposed()
	b.open(r.ts.URL + "/")
	b.accessible("overview-pending")
	b.open(r.ts.URL + "/cutovers")
	b.accessible("list-open")
	items[apitype.Cutover](t, r.sign("alice", co, waivers...))
	b.open(r.ts.URL + "/cutovers/CUT-1")
	b.accessible("card-open")
	b.eval(`document.getElementById("approve-reason").value = "power is lost"; document.querySelector("[data-signs]").form.noValidate = true; document.querySelector("[data-signs]").click()`)
	b.until(`document.querySelector("[aria-invalid]")`, "the form comes back")
	b.live()
	b.accessible("card-form-errors")

	b.open(r.ts.URL + "/cutovers/CUT-1")
	b.eval(`document.getElementById("approve-reason").value = "power is lost"`)
	r.down(4, "eu", "us")
	r.walk()
	b.until(`!document.getElementById("changed").hidden`, "the evidence changed")
	b.accessible("card-changed")
	b.eval(`document.querySelector("[name=look]").click()`)
	b.until(`document.getElementById("notice")`, "the outcome")
	b.live()
	b.accessible("card-look-again")
	require.Equal(t, http.StatusOK, r.as("alice", "POST", "/v1/cutovers/CUT-1/reject", `{"reason":"us is down too"}`).status)
	b.open(r.ts.URL + "/cutovers/CUT-1")
	b.accessible("card-rejected")
	b.clean(r)
}

func TestBrowserFindsNoBarrierWhileAServiceMoves(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 1280, 900)
	r.set(func() { r.quorum.Leader = "eu-1" })
	r.server.cfg.Acknowledged = func(string) ([]string, bool) { return []string{"eu-1", "us-1"}, true }
	r.begun()
	b.open(r.ts.URL + "/")
	b.accessible("overview-moving")
	b.open(r.ts.URL + "/cutovers/CUT-1")
	b.accessible("card-fencing")
	r.walk("ap-1", "eu-1", "us-1")
	b.open(r.ts.URL + "/cutovers/CUT-1")
	b.accessible("card-done")
	b.open(r.ts.URL + "/cutovers")
	b.accessible("list-ended")
	r.recovered()
	b.open(r.ts.URL + "/")
	b.accessible("overview-unconfirmed")
	b.open(r.ts.URL + confirmForm)
	b.accessible("confirm")
	b.clean(r)
}

func TestBrowserFindsNoBarrierAtTheDoor(t *testing.T) {
	r, b := newStatefulRig(t), newBrowser(t, 1280, 900)
	b.load(r.ts.URL + "/")
	b.accessible("login")
	b.press("qt1.alice.wrong")
	b.do(chromedp.Submit(chromedp.CSS("#token")))
	b.until(`document.querySelector(".banner")`, "it is refused")
	b.accessible("login-refused")
	b.clean(r)
}

func TestBrowserFindsNoBarrierInWhatIsOld(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 1280, 900)
	r.set(func() { r.quorum = QuorumView{Stale: 90e9, Voters: 3, VotersUp: 1} })
	b.open(r.ts.URL + "/")
	b.accessible("overview-old")
	b.clean(r)
}

func TestBrowserFindsNoBarrierInPlacement(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 1280, 900)
	spec := *r.store.State().Spec
	spec.Clusters = map[string]*statestore.Cluster{}
	maps.Copy(spec.Clusters, r.store.State().Spec.Clusters)
	dr := *spec.Clusters["dr"]
	dr.Hostname, dr.IPv4, dr.Capacity = "loadbalancer.dr.example.net.", nil, 100
	dr.CapacityFrom = &statestore.CapacityFrom{HTTP: &statestore.CapacityHTTP{Port: 443, Path: "/", JSON: "$.n"}, MaxAge: statestore.Duration(time.Minute)}
	spec.Clusters["dr"] = &dr
	r.apply1(&spec)
	r.must(statestore.ResolveCluster{Cluster: "dr", Hostname: dr.Hostname, Addrs: addrs("203.0.113.10")}, statestore.ReportCapacity{Cluster: "dr", Capacity: 40})
	require.Equal(t, http.StatusOK, r.as("admin", "PUT", "/v1/services/web/override", `{"cluster":"us","reason":"eu answers 500","for":"30m"}`).status)
	r.ail(3, "eu", "cert")
	b.open(r.ts.URL + "/")
	require.Contains(t, b.eval(`document.body.textContent`), "pinned to us")
	b.accessible("overview-placement")
	b.clean(r)
}
