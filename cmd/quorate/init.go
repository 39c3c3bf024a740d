package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus/mesh"
	"github.com/quorate/quorate/statestore"
)

// fresh is what init and join write a node.yaml from.
type fresh struct {
	config     string
	name       string
	region     string
	role       string
	dataDir    string
	dnsListen  []string
	dnsAddrs   []string
	peerListen string
	peerAddr   string
	apiListen  string
	profile    string
	cmd        *cobra.Command // knows which of the above were given
}

func (f *fresh) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.cmd = cmd
	fs.StringVarP(&f.config, "config", "c", "/etc/quorate/node.yaml", "node.yaml to write; used as it is when it exists")
	fs.StringVar(&f.name, "name", "", "name of this node, such as eu-1; hard to change later")
	fs.StringVar(&f.region, "region", "", "region of this node, such as eu-west")
	fs.StringVar(&f.role, "role", "voter", "voter or nonvoter")
	fs.StringVar(&f.dataDir, "data-dir", "/var/lib/quorate", "where the node keeps its log, certificates and last known good answers")
	fs.StringSliceVar(&f.dnsListen, "dns-listen", nil, "addresses to answer DNS on; default port 53 of all")
	fs.StringSliceVar(&f.dnsAddrs, "dns-advertise", nil, "public addresses resolvers use")
	fs.StringVar(&f.peerListen, "peer-listen", "0.0.0.0:7654", "address for the other nodes")
	fs.StringVar(&f.peerAddr, "peer-advertise", "", "HOST:PORT at which other nodes reach this one; default the host's name")
	fs.StringVar(&f.apiListen, "api-listen", "127.0.0.1:7653", "address of API and console")
	fs.StringVar(&f.profile, "profile", "wan", "wan or lan: timeouts between nodes")
}

// nodeConfig returns the node.yaml to use, written first unless it exists.
func (c *cli) nodeConfig(f *fresh) (*config.Node, error) {
	if kept, err := os.ReadFile(f.config); err == nil {
		if err := f.agrees(string(kept)); err != nil {
			return nil, err
		}
		return c.loadNode(f.config)
	}
	text, err := f.yaml()
	if err != nil {
		return nil, err
	}
	if _, errs, _ := config.ParseNode(f.config, []byte(text)); len(errs) > 0 {
		return nil, usageError(fmt.Errorf("these flags make no valid node.yaml:\n%s", config.Format(errs)))
	}
	if err := os.MkdirAll(filepath.Dir(f.config), 0o755); err != nil {
		return nil, fmt.Errorf("write node.yaml: %w", err)
	}
	if err := os.WriteFile(f.config, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("write node.yaml: %w", err)
	}
	fmt.Fprintf(c.err, "wrote %s\n", f.config)
	if len(f.dnsAddrs) == 0 {
		fmt.Fprintf(c.err, "without --dns-advertise no NS record names this node; set dns.advertise in %s before it starts\n", f.config)
	}
	return c.loadNode(f.config)
}

// agrees refuses flags that an existing node.yaml would silently win over. The same
// flags as when it was written are fine, so that the command can be repeated.
func (f *fresh) agrees(kept string) error {
	given := changedFlags(f.cmd, "name", "region", "role", "data-dir", "dns-listen", "dns-advertise", "peer-listen", "peer-advertise", "api-listen", "profile")
	if len(given) == 0 {
		return nil
	}
	if text, err := f.yaml(); err == nil && text == kept {
		return nil
	}
	return usageError(fmt.Errorf("%s exists and is used as it is, so %s would do nothing: edit or remove the file, or leave the flags out", f.config, strings.Join(given, " ")))
}

// yaml returns the node.yaml that the flags describe.
func (f *fresh) yaml() (string, error) {
	var missing []string
	for flag, value := range map[string]string{"--name": f.name, "--region": f.region} {
		if value == "" {
			missing = append(missing, flag)
		}
	}
	if len(missing) > 0 {
		return "", usageError(fmt.Errorf("%s does not exist, so %s must be given", f.config, strings.Join(sortedStrings(missing), " and ")))
	}
	advertise := f.peerAddr
	if advertise == "" {
		_, port, err := net.SplitHostPort(f.peerListen)
		if err != nil {
			return "", usageError(fmt.Errorf("--peer-listen must be HOST:PORT, is %q", f.peerListen))
		}
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("find this host's name: %w; give --peer-advertise", err)
		}
		advertise = net.JoinHostPort(host, port)
	}
	var v4, v6 []string
	for _, a := range f.dnsAddrs {
		addr, err := netip.ParseAddr(a)
		if err != nil {
			return "", usageError(fmt.Errorf("--dns-advertise must be IP addresses, is %q", a))
		}
		if addr.Is4() {
			v4 = append(v4, addr.String())
		} else {
			v6 = append(v6, strconv.Quote(addr.String()))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "node: { name: %s, region: %s, role: %s }\n", f.name, f.region, f.role)
	fmt.Fprintf(&b, "data_dir: %s\n", strconv.Quote(f.dataDir))
	b.WriteString("dns:\n")
	if len(f.dnsListen) > 0 {
		fmt.Fprintf(&b, "  listen: [%s]\n", strings.Join(quoted(f.dnsListen), ", "))
	}
	fmt.Fprintf(&b, "  advertise: { ipv4: [%s], ipv6: [%s] }\n", strings.Join(v4, ", "), strings.Join(v6, ", "))
	fmt.Fprintf(&b, "api: { listen: %s }\n", strconv.Quote(f.apiListen))
	fmt.Fprintf(&b, "peer: { listen: %s, advertise: %s, profile: %s }\n", strconv.Quote(f.peerListen), strconv.Quote(advertise), f.profile)
	return b.String(), nil
}

func (c *cli) initCommand() *cobra.Command {
	var (
		f    fresh
		user string
	)
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the first node of an installation",
		Long: `Writes node.yaml unless it exists, makes the installation's certificate
authority and this node's certificate, and a token of the first administrator.
Losing this host later loses nothing: every voter holds the authority's key.`,
		Example: `  quorate init --name eu-1 --region eu-west --dns-advertise 203.0.113.5
  quorate init -c node.yaml                with a node.yaml written by hand`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.initNode(&f, user) },
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&user, "admin", "admin", "user of the first token")
	return cmd
}

// userName is what may stand in the name of the token's file.
var userName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (c *cli) initNode(f *fresh, user string) error {
	if !userName.MatchString(user) {
		return usageError(fmt.Errorf("--admin must be letters, digits, dots, hyphens and underscores, is %q", user))
	}
	if f.role != "voter" {
		return usageError(errors.New("init makes the first voter; --role nonvoter is for join"))
	}
	cfg, err := c.nodeConfig(f)
	if err != nil {
		return err
	}
	if !cfg.Voter {
		return usageError(fmt.Errorf("init makes the first voter, but %s says role: nonvoter", f.config))
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	installation := fmt.Sprintf("%s-%s", cfg.Name, strconv.FormatInt(time.Now().Unix(), 36))
	tokenFile := filepath.Join(cfg.DataDir, user+".token")
	if _, err := os.Stat(tokenFile); err == nil {
		return errExists(tokenFile)
	}
	if _, err := mesh.InitDir(node.MeshDir(cfg.DataDir), installation, cfg.Name, mesh.RoleVoter, time.Now()); err != nil {
		if errors.Is(err, mesh.ErrHasIdentity) {
			return errExists(node.MeshDir(cfg.DataDir))
		}
		return err
	}
	token, id, hash := api.NewToken()
	seed := node.Seed{Installation: installation, Token: &statestore.PutToken{ID: id, User: user, Groups: []string{"admin", "approver"}, Hash: hash, Root: true}}
	if err := node.WriteSeed(cfg.DataDir, seed); err != nil {
		return err
	}
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "installation %s, first node %s (%s)\n", installation, cfg.Name, cfg.Region)
	fmt.Fprintf(c.out, "token of %s: %s (mode 0600; QUORATE_TOKEN_FILE or --token-file)\n", user, tokenFile)
	fmt.Fprintf(c.out, "Next:\n  quorate server -c %s\n  quorate members token              then on each other host: quorate join TOKEN@%s --name NAME --region REGION\n  quorate apply -f spec.yaml\n", f.config, cfg.Peer.Advertise)
	return nil
}

func quoted(ss []string) []string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = strconv.Quote(s)
	}
	return out
}

func sortedStrings(ss []string) []string {
	m := map[string]bool{}
	for _, s := range ss {
		m[s] = true
	}
	return sortedKeys(m)
}
