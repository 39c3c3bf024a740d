package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the picture, in its own units.
const (
	svgWidth  = 720
	svgLeft   = 170 // where bars begin
	svgRight  = 90  // room for figures behind them
	svgBar    = 16
	svgStep   = 24
	svgTop    = 44
	svgHeader = 30
)

// svg draws the ratios of every row with a floor, with the least and the most.
// Colours follow the reader's scheme; names and figures are text.
func (rep *report) svg() string {
	var body strings.Builder
	y, scale := svgTop, svgScale(rep.groups)
	for _, g := range rep.groups {
		if len(g.servers) == 0 || g.servers[0].name != "floor" {
			continue
		}
		fmt.Fprintf(&body, `<text class="head" x="12" y="%d">%s</text>`+"\n", y, html.EscapeString(g.title))
		y += svgHeader - 18
		for _, s := range g.servers {
			if s.absent != "" {
				continue
			}
			y = svgLine(&body, s, y, scale)
		}
		y += svgHeader
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img" aria-label="Queries a second on one core as a part of the floor">`+"\n", svgWidth, y, y)
	b.WriteString(svgStyle)
	fmt.Fprintf(&b, `<rect class="page" width="%d" height="%d"/>`+"\n", svgWidth, y)
	b.WriteString(`<text class="note" x="12" y="20">Queries a second on one core, as a part of the floor; median, with the least and the most</text>` + "\n")
	b.WriteString(body.String())
	b.WriteString("</svg>\n")
	return b.String()
}

const svgStyle = `<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.head { font-weight: 600 }
.note { fill: #57606a }
.figure { font-variant-numeric: tabular-nums }
.page { fill: #ffffff }
.bar { fill: #8c959f }
.ours { fill: #0969da }
.span { stroke: #24292f; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .note { fill: #9198a1 }
  .page { fill: #0d1117 }
  .bar { fill: #656c76 }
  .ours { fill: #4493f8 }
  .span { stroke: #e6edf3 }
}
</style>
`

// svgScale is the width of 1.
func svgScale(groups []group) float64 {
	most := 1.0
	for _, g := range groups {
		if len(g.servers) == 0 || g.servers[0].name != "floor" {
			continue
		}
		for _, s := range g.servers {
			most = math.Max(most, s.ratio.most)
		}
	}
	return (svgWidth - svgLeft - svgRight) / most
}

func svgLine(b *strings.Builder, s serverLine, y int, scale float64) int {
	class := "bar"
	if strings.HasPrefix(s.name, "quorate") {
		class = "ours"
	}
	middle := y + svgBar/2
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, svgLeft-8, y+svgBar-3, html.EscapeString(s.name))
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, class, svgLeft, y, s.ratio.median*scale, svgBar)
	end := s.ratio.median
	if s.ratio.most > s.ratio.least {
		end = s.ratio.most
		from, to := svgLeft+s.ratio.least*scale, svgLeft+s.ratio.most*scale
		fmt.Fprintf(b, `<path class="span" d="M%.1[1]f %[4]dv8M%.1[2]f %[4]dv8M%.1[1]f %[3]dH%.1[2]f"/>`, from, to, middle, middle-4)
	}
	fmt.Fprintf(b, `<text class="figure" x="%.1f" y="%d">%.3f</text>`+"\n", svgLeft+end*scale+6, y+svgBar-3, s.ratio.median)
	return y + svgStep
}
