//go:build browser

package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// click clicks what a person could hit, all in one go: the page may replace it at
// any moment.
func (b *browser) click(selector string) {
	b.t.Helper()
	hit := b.eval(`(() => {
		const el = document.querySelector("` + selector + `");
		if (!el) return "it is not there";
		el.scrollIntoView({block: "center"});
		const box = el.getBoundingClientRect();
		const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
		if (!el.contains(top)) return "covered by " + (top && top.outerHTML);
		el.click();
		return "";
	})()`)
	require.Equal(b.t, "", hit, selector)
}

// fill types into a field.
func (b *browser) fill(id, text string) {
	b.t.Helper()
	b.click("#" + id)
	b.eval(`document.getElementById("` + id + `").focus()`)
	b.press(text)
	require.Equal(b.t, text, b.eval(`document.getElementById("`+id+`").value`))
}

// become switches to another demo user at the top of the page.
func (b *browser) become(user string) {
	b.t.Helper()
	b.eval(`document.querySelector("select[name=user]").value = "` + user + `"`)
	b.click(".switch button")
	b.until(`document.querySelector("select[name=user]").selectedOptions[0].defaultSelected && document.querySelector("select[name=user]").value === "`+user+`"`, "the page is "+user+"'s")
	b.live()
}

func TestBrowserTwoPeopleApproveAndSeeItMove(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 1280, 900)
	r.proposed()
	b.open(r.ts.URL + "/")
	b.click("a.decision")
	b.until(`location.pathname === "/cutovers/CUT-1"`, "the card")
	b.live()
	b.click("#waive-source_fenced")
	b.click("#waive-lag_within_rpo")
	b.fill("approve-reason", "eu loses power at noon")
	b.fill("approve-service", "orders-db")
	b.click("[data-signs]")
	b.until(`document.getElementById("notice")`, "the outcome")
	require.Contains(t, b.text("notice"), "signed 1 of 2 as dave. Waiting for one more approver")
	require.Contains(t, b.text("acts"), "You have signed at")
	require.Equal(t, nil, b.eval(`document.querySelector("[data-signs]")`), "nobody signs twice")

	b.become("erin")
	require.Equal(t, "/cutovers/CUT-1", b.eval(`location.pathname`), "the same page, as somebody else")
	require.Contains(t, b.text("signatures"), "dave")
	require.Equal(t, 0.0, b.eval(`document.querySelectorAll("[name=waive]").length`), "what dave has waived needs no second one")
	b.fill("approve-reason", "agreed, eu is stopped")
	b.fill("approve-service", "orders-db")
	b.click("[data-signs]")
	b.until(`document.getElementById("notice")`, "the outcome")
	require.Contains(t, b.text("notice"), "signed 2 of 2 as erin: approved, the move begins")
	b.live()

	b.eval(`window.same = true`)
	r.walk()
	b.until(`document.getElementById("head").textContent.includes("under way")`, "it moves")
	r.walk("ap-1", "eu-1", "us-1")
	b.until(`document.getElementById("head").textContent.includes("done")`, "it is done")
	require.Equal(t, true, b.eval(`window.same`), "it was not loaded anew")
	require.Equal(t, "us", r.store.State().Ownership("orders-db").Active)
	b.open(r.ts.URL + "/")
	require.Contains(t, b.eval(`document.querySelector(".notes").closest("tr").textContent`), "us active, epoch 2")
	b.clean(r)
}

func TestBrowserShowsAClusterGoDownAndComeBackWithoutAReload(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 1280, 900)
	b.open(r.ts.URL + "/")
	b.eval(`window.same = true`)
	const column = `[...document.querySelectorAll(".matrix thead th")].findIndex((th) => th.textContent.startsWith("eu"))`
	// cell is what stands in eu's column, in the row that starts like this.
	cell := func(row string) string {
		return `[...document.querySelectorAll(".matrix tr")].find((tr) => tr.textContent.trim().startsWith("` + row + `")).children[` + column + `].textContent`
	}
	require.Contains(t, b.eval(cell("us-1")), "● up")
	require.Contains(t, b.eval(cell("verdict")), "● UP 3/3")

	r.votes(3, false, map[health.ObserverID][]string{"us-1": {"eu"}})
	b.until(cell("us-1")+`.includes("✕ down refused")`, "the first observer's vote shows")
	require.Contains(t, b.eval(cell("us-1")), "alone")
	require.Contains(t, b.eval(cell("eu-1")), "● up")
	r.down(4, "eu")
	b.until(cell("verdict")+`.includes("✕ DOWN 3/3")`, "the verdict")
	require.Contains(t, b.eval(cell("eu-1")), "✕ down refused")
	b.until(`document.querySelector(".notes").textContent.includes("ACTIVE SIDE DOWN")`, "and what it means for orders-db")
	r.votes(5, false, nil)
	b.until(cell("verdict")+`.includes("● UP")`, "it is back")
	require.Equal(t, true, b.eval(`window.same`), "it was not loaded anew")
	b.clean(r)
}

func TestBrowserConfirmsTheActiveSideAfterARecovery(t *testing.T) {
	r, b := browserRig(t), newBrowser(t, 360, 740)
	r.recovered()
	b.open(r.ts.URL + "/")
	b.click("a[href='" + confirmForm + "']")
	b.until(`location.pathname === "`+confirmForm+`"`, "the form")
	b.live()
	b.click("[name=active][value=us]")
	b.fill("confirm-reason", "us took the last writes, eu is stopped")
	b.fill("confirm-service", "orders-db")
	b.click("button.primary")
	b.until(`document.getElementById("notice")`, "the outcome")
	require.Contains(t, b.text("notice"), "us is the active side of orders-db")
	require.False(t, r.store.State().Ownership("orders-db").Unconfirmed)
	b.clean(r)
}
