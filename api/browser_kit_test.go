//go:build browser

package api

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// browserPatience is how long the page may take to show what a test waits for.
const browserPatience = 15 * time.Second

// browser is a tab of a real Chromium.
type browser struct {
	t   testing.TB
	ctx context.Context // of chromedp: it holds the tab

	mu       sync.Mutex // protects what follows
	requests []string   // every address that was asked for
	faults   []string   // exceptions, and what the content policy refused
}

// newBrowser starts Chromium with one empty page of that size.
func newBrowser(t testing.TB, width, height int64) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		// Whoever builds a release must not take a skipped test for a passed one.
		require.NotEqual(t, "true", os.Getenv("CI"), "chromium is missing: %v", err)
		t.Skip("needs chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU)
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(alloc)
	t.Cleanup(closeTab)
	b := &browser{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.note))
	b.do(chromedp.EmulateViewport(width, height))
	return b
}

// note keeps what a test asks for at its end.
func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		fault := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			fault += " " + e.ExceptionDetails.Exception.Description
		}
		b.faults = append(b.faults, fault)
	case *log.EventEntryAdded:
		if strings.Contains(e.Entry.Text, "Content Security Policy") {
			b.faults = append(b.faults, e.Entry.Text)
		}
	}
}

// clean asserts that nothing came from elsewhere, and nothing went wrong unseen.
func (b *browser) clean(r *rig) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(b.t, b.requests)
	for _, u := range b.requests {
		require.True(b.t, strings.HasPrefix(u, r.ts.URL+"/") || u == "about:blank", "a foreign request: %s", u)
	}
	require.Empty(b.t, b.faults)
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

func (b *browser) run(script string) (any, error) {
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[any](script, chromedp.EvalAwaitPromise))
}

// eval returns what a script makes of the page.
func (b *browser) eval(script string) any {
	b.t.Helper()
	v, err := b.run(script)
	require.NoError(b.t, err, script)
	return v
}

// text returns what an element says.
func (b *browser) text(id string) any {
	b.t.Helper()
	return b.eval(`document.getElementById("` + id + `").textContent`)
}

// until waits for a script to be true, whatever is loaded meanwhile.
func (b *browser) until(script, what string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		v, err := b.run("!!(" + script + ")")
		return err == nil && v == true // a page that is being left answers with an error
	}, browserPatience, 50*time.Millisecond, what)
}

// load loads a page.
func (b *browser) load(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// open loads a page and waits for its stream.
func (b *browser) open(url string) {
	b.t.Helper()
	b.load(url)
	b.until(`location.href === "`+url+`"`, "the page is there: "+url)
	b.live()
}

func (b *browser) live() {
	b.t.Helper()
	b.until(`document.readyState === "complete" && document.getElementById("live").textContent === "live"`, "the page is live")
}

// press types text where the focus is.
func (b *browser) press(text string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, input.InsertText, input.InsertTextParams{Text: text})
	require.NoError(b.t, err)
}

// key presses a key of package kb.
func (b *browser) key(key string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(key))
}

// scheme has the page prefer light or dark.
func (b *browser) scheme(name string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	require.NoError(b.t, err)
}
