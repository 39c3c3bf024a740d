package probe

// keptResults is how many results a probe keeps for people to look at: one strip
// of the console.
const keptResults = 20

// ring holds the last results of a probe. It grows with what is put in, so that
// ten thousand new probes cost nothing.
type ring struct {
	results []Result
	next    int
}

func (r *ring) add(res Result) {
	if len(r.results) < keptResults {
		r.results = append(r.results, res)
		return
	}
	r.results[r.next] = res
	r.next = (r.next + 1) % keptResults
}

// list returns a copy, oldest first.
func (r *ring) list() []Result {
	out := make([]Result, 0, len(r.results))
	return append(append(out, r.results[r.next:]...), r.results[:r.next]...)
}
