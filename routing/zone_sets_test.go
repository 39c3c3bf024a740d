package routing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestSetsAreTheWholeZone(t *testing.T) {
	st := delegating()
	st.Spec.Services["db"].SRV = &statestore.SRVRecord{Port: 5432, Proto: "tcp"}
	table := compile(t, st)
	var got []string
	for _, s := range table.Sets("GSLB.test") {
		line := s.Owner + " " + TypeName(s.Type)
		switch {
		case s.Service != "":
			line += " of " + s.Service
		case s.Derived:
			line += " derived"
		}
		if s.Set != nil {
			line += fmt.Sprintf(" %d", len(s.Set.Text))
		}
		got = append(got, line)
	}
	require.Equal(t, strings.Split(`gslb.test. SOA derived 1
gslb.test. A of web
gslb.test. NS derived 3
gslb.test. TXT 1
gslb.test. AAAA of web
_db._tcp.gslb.test. SRV of db 1
child.gslb.test. NS 3
child.gslb.test. DS 1
ns1.child.gslb.test. A 1
ns1.child.gslb.test. AAAA 1
db.gslb.test. A of db
db.gslb.test. AAAA of db
signed.nested.gslb.test. DS 1
*.new.gslb.test. TXT 1
host.new.gslb.test. A 1
ns-eu-1.gslb.test. A derived 1
ns-eu-1.gslb.test. AAAA derived 1
ns-us-1.gslb.test. A derived 1
old.gslb.test. TXT 1
old.gslb.test. DNAME 1
other.gslb.test. NS 1
ns.other.gslb.test. A 1
to-child.gslb.test. CNAME 1
to-old.gslb.test. CNAME 1
web.gslb.test. A of web
web.gslb.test. AAAA of web
x.gslb.test. TYPE65534 1`, "\n"), got)
	require.Nil(t, table.Sets("example."))
	require.Len(t, table.Sets("plain.nested."+testZone), 6, "SOA, NS, three addresses of name servers, www")
}
