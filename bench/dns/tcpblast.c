//go:build ignore

// tcpblast - DNS over TCP load generator with answer checking.
//
//   cc -O2 -o tcpblast tcpblast.c
//
// -m once: CONNS connections at a time, each opened for one query and closed by the
// client once its answer is here. -m pipe: CONNS connections stay, each with WINDOW
// queries outstanding; what several answers free is asked with one write.
// Every answer's id, question, QR bit and code are compared with what was asked.
// One epoll loop, one thread. One line of JSON on stdout.
//
// Query file, one per line:  NAME TYPE ...     (TYPE: A AAAA TXT or a number)
//
// Clients of -m once close first, so their ports stay in TIME_WAIT: they bind to
// SOURCES addresses of 127.0.0.0/8 in turn, or the ports would run out. Each one is in
// a /24 of its own, as servers limit connections by network.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

#define MAXW 1024
#define INBUF 65536

typedef struct { uint8_t wire[300]; uint16_t len, qlen; } query; // len without the length prefix
typedef struct {
  int fd, connected; uint32_t gen;
  uint32_t first, next, due;       // pipe: ids asked and not answered are [first, next); due: to be asked
  uint32_t ask[MAXW];              // by id % MAXW: which query
  uint64_t since;
  uint8_t *out; int outn, outat;   // not written yet
  uint8_t in[INBUF]; int inn;
} conn;

static struct sockaddr_in dst; static query *Q; static uint32_t NQ, turn;
static int nconn = 32, window = 32, once = 1, edns, cpu = -1, sources = 200, expect_rc, ep;
static double dur = 1, warm = 0.2; static int pid;
static uint64_t ok, bad, badrcode, lost, connects, maxlat, latsum; static int measuring;

static uint64_t now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void die(const char *what) { perror(what); exit(1); }

static int mkq(query *q, const char *name, const char *type) {
  memset(q, 0, sizeof *q); uint8_t *o = q->wire + 12; const char *s = name;
  q->wire[5] = 1; q->wire[11] = edns;
  while (*s) { const char *d = strchr(s, '.'); size_t l = d ? (size_t)(d - s) : strlen(s); if (!l) break; if (l > 63 || o + l > q->wire + 260) return -1; *o++ = l; memcpy(o, s, l); o += l; s += l; if (*s == '.') s++; }
  *o++ = 0; int t = !strcmp(type, "A") ? 1 : !strcmp(type, "AAAA") ? 28 : !strcmp(type, "TXT") ? 16 : atoi(type);
  *o++ = t >> 8; *o++ = t; *o++ = 0; *o++ = 1; q->qlen = o - q->wire - 12;
  if (edns) { static const uint8_t e[] = {0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0}; memcpy(o, e, sizeof e); o += sizeof e; }
  q->len = o - q->wire; return 0;
}

// ticks is the CPU time of a process with all its threads, in clock ticks.
static double cpu_of(int p, double *sys) {
  char path[64], buf[1024]; snprintf(path, sizeof path, "/proc/%d/stat", p);
  FILE *f = fopen(path, "r"); if (!f) return 0;
  size_t n = fread(buf, 1, sizeof buf - 1, f); fclose(f); buf[n] = 0;
  char *s = strrchr(buf, ')'); unsigned long u = 0, k = 0;
  if (s) sscanf(s + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &u, &k);
  double hz = sysconf(_SC_CLK_TCK); *sys = k / hz; return u / hz;
}

static void queue(conn *c) { // one more query at the end of out
  uint32_t q = turn++ % NQ, id = c->next++; uint8_t *o = c->out + c->outn;
  c->ask[id % MAXW] = q; o[0] = Q[q].len >> 8; o[1] = Q[q].len;
  memcpy(o + 2, Q[q].wire, Q[q].len); o[2] = id >> 8; o[3] = id; c->outn += 2 + Q[q].len;
}

static void flush(conn *c) {
  while (c->outat < c->outn) {
    ssize_t n = send(c->fd, c->out + c->outat, c->outn - c->outat, MSG_NOSIGNAL);
    if (n < 0) { if (errno == EAGAIN) break; lost++; break; }
    c->outat += n;
  }
  if (c->outat == c->outn) c->outat = c->outn = 0;
}

static void opens(conn *c) {
  static uint32_t src;
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0); if (c->fd < 0) die("socket");
  int one = 1; setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  uint32_t i = src++ % sources;
  struct sockaddr_in me = {.sin_family = AF_INET}; me.sin_addr.s_addr = htonl(0x7f010001 + (i << 8));
  if (bind(c->fd, (struct sockaddr *)&me, sizeof me)) die("bind");
  if (connect(c->fd, (struct sockaddr *)&dst, sizeof dst) && errno != EINPROGRESS) die("connect");
  c->first = c->next = c->inn = c->outn = c->outat = 0; c->since = now_ns();
  connects += measuring;
  // On loopback the handshake is over when connect returns: the query can go at once.
  for (int k = 0; k < (once ? 1 : window); k++) queue(c);
  flush(c);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  if (c->outn) e.events |= EPOLLOUT;
  if (epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e)) die("epoll_ctl");
}

static int match(conn *c, const uint8_t *m, int n) { // 1: the answer to a query outstanding
  if (n < 12) return 0;
  uint32_t id = m[0] << 8 | m[1], want = c->first; // answers come in order
  if (id != (want & 0xffff) || !(m[2] & 0x80)) return 0;
  query *q = &Q[c->ask[want % MAXW]];
  if (n < 12 + q->qlen || memcmp(m + 12, q->wire + 12, q->qlen)) return 0;
  if ((m[3] & 15) != expect_rc) badrcode += measuring;
  return 1;
}

static void serve(conn *c, uint32_t events) {
  if (c->outn) {
    flush(c);
    if (!c->outn) { struct epoll_event e = {.events = EPOLLIN, .data.ptr = c}; epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e); }
  }
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  ssize_t n = recv(c->fd, c->in + c->inn, INBUF - c->inn, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) { lost += measuring; close(c->fd); opens(c); return; }
  c->inn += n; int at = 0, answered = 0;
  while (c->inn - at >= 2) {
    int len = c->in[at] << 8 | c->in[at + 1]; if (c->inn - at < 2 + len) break;
    if (c->first == c->next || !match(c, c->in + at + 2, len)) { bad += measuring; } else { ok += measuring; }
    c->first++; answered++; at += 2 + len;
  }
  memmove(c->in, c->in + at, c->inn - at); c->inn -= at;
  if (!answered) return;
  uint64_t t = now_ns() - c->since; c->since += t;
  if (measuring) { latsum += t; if (t > maxlat) maxlat = t; }
  if (once) { close(c->fd); opens(c); return; }
  for (int k = 0; k < answered; k++) queue(c);
  flush(c);
  if (c->outn) { struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c}; epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e); }
}

int main(int argc, char **argv) {
  const char *host = "127.0.0.1", *file = NULL; int port = 53, o;
  while ((o = getopt(argc, argv, "s:p:f:m:c:w:d:W:P:S:C:eR:")) != -1) switch (o) {
    case 's': host = optarg; break; case 'p': port = atoi(optarg); break; case 'f': file = optarg; break;
    case 'm': once = !strcmp(optarg, "once"); break; case 'c': nconn = atoi(optarg); break; case 'w': window = atoi(optarg); break;
    case 'd': dur = atof(optarg); break; case 'W': warm = atof(optarg); break; case 'P': pid = atoi(optarg); break;
    case 'S': sources = atoi(optarg); break; case 'C': cpu = atoi(optarg); break; case 'e': edns = 1; break;
    case 'R': expect_rc = atoi(optarg); break;
    default: fprintf(stderr, "usage: tcpblast -f QUERIES [-s HOST -p PORT -m once|pipe -c CONNS -w WINDOW -d SEC -W WARM -P SERVERPID -S SOURCES -C CPU -e -R RCODE]\n"); return 2;
  }
  if (!file || window > MAXW || sources < 1 || sources > 4000) { fprintf(stderr, "tcpblast: -f is needed; -w up to %d, -S up to 4000\n", MAXW); return 2; }
  if (cpu >= 0) { cpu_set_t s; CPU_ZERO(&s); CPU_SET(cpu, &s); sched_setaffinity(0, sizeof s, &s); }
  FILE *f = fopen(file, "r"); if (!f) die(file);
  char line[1024], name[512], type[32]; uint32_t cap = 0;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%511s %31s", name, type) != 2) continue;
    if (NQ == cap) { cap = cap ? 2 * cap : 1024; Q = realloc(Q, cap * sizeof *Q); if (!Q) die("realloc"); }
    if (!mkq(&Q[NQ], name, type)) NQ++;
  }
  fclose(f); if (!NQ) { fprintf(stderr, "tcpblast: no queries in %s\n", file); return 2; }
  dst.sin_family = AF_INET; dst.sin_port = htons(port); inet_pton(AF_INET, host, &dst.sin_addr);
  ep = epoll_create1(0); conn *conns = calloc(nconn, sizeof *conns);
  for (int i = 0; i < nconn; i++) { conns[i].out = malloc((size_t)(window + 1) * 302); opens(&conns[i]); }
  uint64_t start = now_ns(), from = start + warm * 1e9, to = from + dur * 1e9, t0 = 0, t1;
  double u0 = 0, s0 = 0, u1 = 0, s1 = 0; struct rusage r0, r1;
  struct epoll_event ev[256];
  for (;;) {
    uint64_t t = now_ns();
    if (!measuring && t >= from) { measuring = 1; t0 = t; if (pid) u0 = cpu_of(pid, &s0); getrusage(RUSAGE_SELF, &r0); }
    if (t >= to) break;
    int n = epoll_wait(ep, ev, 256, 100);
    for (int i = 0; i < n; i++) serve(ev[i].data.ptr, ev[i].events);
  }
  t1 = now_ns(); if (pid) u1 = cpu_of(pid, &s1); getrusage(RUSAGE_SELF, &r1);
  double sec = (t1 - t0) / 1e9, own = (r1.ru_utime.tv_sec + r1.ru_stime.tv_sec - r0.ru_utime.tv_sec - r0.ru_stime.tv_sec) + (r1.ru_utime.tv_usec + r1.ru_stime.tv_usec - r0.ru_utime.tv_usec - r0.ru_stime.tv_usec) / 1e6;
  printf("{\"mode\":\"%s\",\"qps\":%.0f,\"ok\":%lu,\"bad\":%lu,\"badrcode\":%lu,\"lost\":%lu,\"connects\":%lu,\"max_ms\":%.2f,\"own_cpu\":%.3f,\"server_cpu\":%.3f,\"server_us\":%.2f,\"server_user_us\":%.2f}\n",
    once ? "once" : "pipe", ok / sec, ok, bad, badrcode, lost, connects, maxlat / 1e6, own / sec, (u1 + s1 - u0 - s0) / sec, ok ? (u1 + s1 - u0 - s0) * 1e6 / ok : 0, ok ? (u1 - u0) * 1e6 / ok : 0);
  return bad || badrcode ? 1 : 0;
}
