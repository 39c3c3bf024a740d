package node

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// fill sets every field that v reaches to something that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.Float64:
		v.SetFloat(0.5)
	default:
		panic("no value for " + v.Kind().String())
	}
}

// change calls with, in turn, for each value that v reaches while that one is another.
func change(v reflect.Value, path string, with func(path string)) {
	set := func(to reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(to)
		with(path)
		v.Set(was)
	}
	switch v.Kind() {
	case reflect.Pointer:
		change(v.Elem(), path, with)
		set(reflect.Zero(v.Type()))
	case reflect.Struct:
		if v.Type().PkgPath() == "net/netip" {
			set(reflect.Zero(v.Type()))
			return
		}
		for i := range v.NumField() {
			change(v.Field(i), path+"."+v.Type().Field(i).Name, with)
		}
	case reflect.Slice:
		change(v.Index(0), path+"[0]", with)
		set(reflect.Zero(v.Type()))
	default:
		set(reflect.Zero(v.Type()))
	}
}

func TestNoFieldOfACheckIsLostOnItsWayToTheProbe(t *testing.T) {
	var c statestore.Check
	fill(reflect.ValueOf(&c).Elem())
	converted := func() string {
		b, err := json.Marshal(probeCheck(&c))
		require.NoError(t, err)
		return string(b)
	}
	whole := converted()
	fields := 0
	change(reflect.ValueOf(&c).Elem(), "check", func(path string) {
		fields++
		require.NotEqual(t, whole, converted(), "%s changes nothing about the probe", path)
	})
	require.Greater(t, fields, 50)
	require.Equal(t, whole, converted(), "put back")
}

func TestNoFieldOfAProbeStaysUnset(t *testing.T) {
	var c statestore.Check
	fill(reflect.ValueOf(&c).Elem())
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		require.False(t, v.IsZero(), "%s is never set", path)
		switch v.Kind() {
		case reflect.Pointer:
			walk(v.Elem(), path)
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), path+"["+strconv.Itoa(i)+"]")
			}
		}
	}
	walk(reflect.ValueOf(probeCheck(&c)), "check")
}

// planSpec is web and api over eu and us, checked in every way that names a server.
func planSpec() *statestore.Spec {
	named := func(tls *statestore.TLSCheck) *statestore.HTTPCheck {
		return &statestore.HTTPCheck{Port: 443, Host: "{service}.{zone}", TLS: tls, Expect: statestore.HTTPExpect{Status: []statestore.StatusRange{{Low: 200, High: 200}}}}
	}
	checks := []*statestore.Check{
		{Name: "http", Interval: statestore.Duration(time.Second), HTTP: named(nil)},
		{Name: "https", Interval: statestore.Duration(time.Second), HTTPS: named(&statestore.TLSCheck{ServerName: "{service}.{zone}", Verify: true})},
		{Name: "tls", Interval: statestore.Duration(time.Second), TLS: &statestore.HandshakeCheck{Port: 465, ServerName: "{service}.{zone}"}},
		{Name: "grpc", Interval: statestore.Duration(time.Second), GRPC: &statestore.GRPCCheck{Port: 443, Host: "{service}.{zone}", TLS: &statestore.TLSCheck{}}},
	}
	service := func(name string) *statestore.Service {
		return &statestore.Service{Zone: "gslb.test.", Names: []string{name}, Checks: statestore.Checks{All: checks[:2], Any: checks[2:]}}
	}
	return &statestore.Spec{
		Zones: map[string]*statestore.Zone{"gslb.test.": {}},
		Clusters: map[string]*statestore.Cluster{
			"eu": {IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.10")}},
			"us": {IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.20")}, Check: &statestore.Check{Name: "door", HTTP: named(nil)}},
		},
		Services: map[string]*statestore.Service{"web": service("web"), "api": service("api")},
	}
}

// hosts are the names that a target's checks ask for, by check.
func hosts(in probe.TargetChecks) map[string][]string {
	out := map[string][]string{}
	for _, c := range append(in.All, in.Any...) {
		switch {
		case c.HTTP != nil:
			out[c.Name] = []string{c.HTTP.Host}
		case c.HTTPS != nil:
			out[c.Name] = []string{c.HTTPS.Host, c.HTTPS.TLS.ServerName}
		case c.TLS != nil:
			out[c.Name] = []string{c.TLS.ServerName}
		case c.GRPC != nil:
			out[c.Name] = []string{c.GRPC.Host, c.GRPC.TLS.ServerName}
		}
	}
	return out
}

func TestHostOfAnOverrideIsForThatServiceAtThatCluster(t *testing.T) {
	spec := planSpec()
	spec.Services["web"].Overrides = map[string]*statestore.ClusterOverride{"us": {Host: "web.us.example.net"}}
	at := func(service, cluster string) map[string][]string {
		return hosts(targetChecks(spec, health.Target{Service: service, Cluster: cluster, Endpoint: spec.Clusters[cluster].IPv4[0]}))
	}
	const us = "web.us.example.net"
	require.Equal(t, map[string][]string{
		"http": {us}, "https": {us, us}, "tls": {us}, "grpc": {us, us}, "door": {"."},
	}, at("web", "us"), "the cluster's own check is not the service's")
	const web, api = "web.gslb.test", "api.gslb.test"
	require.Equal(t, map[string][]string{"http": {web}, "https": {web, web}, "tls": {web}, "grpc": {web, ""}}, at("web", "eu"))
	require.Equal(t, api, at("api", "us")["http"][0])
	require.Equal(t, "{service}.{zone}", spec.Services["web"].Checks.All[0].HTTP.Host, "the spec is as it was")
}
