//go:build ignore

// dnsblast - DNS load over UDP from one thread, with every answer checked.
//
//   cc -O2 -o dnsblast dnsblast.c
//
// Closed loop (-w): that many queries are outstanding over all sockets, and the rate
// at which answers come is the figure. Fixed rate (-q): queries go by a schedule, and
// latency counts from when the schedule says, so that a server that stalls cannot
// hide it by stalling the load (coordinated omission).
// Each answer's id, question, QR bit and code are compared with what was asked; every
// K-th one (-V) is read through: it must hold the type asked for, the address that
// the query file expects, and with -G a signature. One line of JSON on stdout.
//
// Query file, one a line:  NAME TYPE [IPv4]     (TYPE: A AAAA TXT HTTPS or a number)
//
// The first line is for the Go tool alone, which is to leave this file be.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define BATCH 64   // messages a system call
#define SLOTS 1024 // queries outstanding on a socket; the low bits of an id
#define PACKET 4096
#define BUCKETS 2048 // of the latency histogram
// How many senders -B has: a busy authoritative server hears of that many resolvers,
// though not from each as often.
#define SENDERS 16384

enum { A = 1, AAAA = 28, TXT = 16, OPT = 41, RRSIG = 46, HTTPS = 65 };

typedef struct {
  uint8_t wire[300];
  uint16_t len, question; // of the message, and of its question alone
  uint16_t type;
  uint32_t ip; // 0: any
} query;

typedef struct {
  uint64_t sent; // ns
  uint32_t query;
  uint8_t generation, busy;
} slot;

typedef struct {
  int fd, free, inflight;
  slot slots[SLOTS];
  uint16_t unused[SLOTS]; // the first `free` are slots that nothing waits in
} sock;

static struct {
  uint64_t sent, ok, lost, stale, unsent, bad_match, bad_rcode, no_answer, bad_address, unsigned_, truncated;
  uint64_t in_time; // answers before the end of the measured time
  uint64_t hist[BUCKETS], slowest;
} count;

static struct sockaddr_in server;
static query *queries;
static uint32_t nqueries, turn;
static int nsocks = 4, window = 200, segments, least = 1, every = 8, timeout_ms = 500, expect_rcode;
static int echo, edns, want_do, want_rrsig, prefix_bits;
static uint32_t prefix, senders[SENDERS]; // of -B
static double rate, measure_s = 1, warm_s = 0.2;
static int pids[64], npids;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static double own_cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static uint64_t draw(void) { // xorshift: cheap, and the same in every burst
  static uint64_t x = 88172645463325252ull;
  x ^= x << 13;
  x ^= x >> 7;
  return x ^= x << 17;
}

// The histogram has 32 buckets for each power of two: 3 % precision.
static int bucket(uint64_t ns) {
  if (ns < 32)
    return ns;
  int e = 63 - __builtin_clzll(ns), b = (e - 4) * 32 + ((ns >> (e - 5)) & 31);
  return b < BUCKETS ? b : BUCKETS - 1;
}

static double bucket_us(int b) {
  if (b < 32)
    return b / 1e3;
  int e = b / 32 + 4;
  return ((1ull << e) + ((uint64_t)(b % 32) << (e - 5)) + (1ull << (e - 5)) / 2) / 1e3;
}

static double quantile_us(double q) {
  uint64_t seen = 0, want = q * count.ok;
  for (int b = 0; b < BUCKETS; b++)
    if ((seen += count.hist[b]) > want)
      return bucket_us(b);
  return 0;
}

static int make_query(query *q, const char *name, const char *type, const char *ip) {
  memset(q, 0, sizeof *q);
  uint8_t *o = q->wire + 12;
  q->wire[5] = 1;
  for (const char *s = name; *s;) {
    size_t l = strcspn(s, ".");
    if (!l || l > 63 || o + l > q->wire + 260)
      return -1;
    *o++ = l;
    memcpy(o, s, l);
    o += l;
    s += l + (s[l] == '.');
  }
  *o++ = 0;
  q->type = !strcmp(type, "A")       ? A
            : !strcmp(type, "AAAA")  ? AAAA
            : !strcmp(type, "TXT")   ? TXT
            : !strcmp(type, "HTTPS") ? HTTPS
                                     : atoi(type);
  *o++ = q->type >> 8;
  *o++ = q->type;
  *o++ = 0;
  *o++ = 1;
  q->question = o - q->wire - 12;
  if (edns) { // version 0, 1232 bytes, no options
    const uint8_t opt[] = {0, 0, OPT, 4, 208, 0, 0, want_do ? 0x80 : 0, 0, 0, 0};
    q->wire[11] = 1;
    memcpy(o, opt, sizeof opt);
    o += sizeof opt;
  }
  q->len = o - q->wire;
  struct in_addr a;
  if (ip && inet_aton(ip, &a))
    q->ip = a.s_addr;
  return 0;
}

static int read_queries(const char *path) {
  char line[600], name[300], type[20], ip[40];
  FILE *f = fopen(path, "r");
  if (!f) {
    perror(path);
    return -1;
  }
  uint32_t room = 0;
  while (fgets(line, sizeof line, f)) {
    ip[0] = 0;
    if (sscanf(line, "%299s %19s %39s", name, type, ip) < 2)
      continue;
    if (nqueries == room) {
      room = room ? 2 * room : 1024;
      queries = realloc(queries, room * sizeof *queries);
    }
    if (!make_query(&queries[nqueries], name, type, ip))
      nqueries++;
  }
  fclose(f);
  return nqueries ? 0 : -1;
}

static int after_name(const uint8_t *p, int n, int at) {
  while (at < n) {
    if (!p[at])
      return at + 1;
    if (p[at] >= 192)
      return at + 2;
    at += p[at] + 1;
  }
  return -1;
}

// look_through reads the answer section of an answer that matches its query.
static void look_through(const query *q, const uint8_t *p, int n) {
  int at = 12 + q->question, answers = p[6] << 8 | p[7], found = 0, right = 0, signatures = 0;
  for (int i = 0; i < answers; i++) {
    at = after_name(p, n, at);
    if (at < 0 || at + 10 > n) {
      count.bad_match++;
      return;
    }
    int type = p[at] << 8 | p[at + 1], len = p[at + 8] << 8 | p[at + 9];
    at += 10;
    if (at + len > n) {
      count.bad_match++;
      return;
    }
    if (type == q->type) {
      found++;
      right += !q->ip || (len == 4 && !memcmp(p + at, &q->ip, 4));
    }
    signatures += type == RRSIG;
    at += len;
  }
  if (!found)
    count.no_answer++;
  else if (!right)
    count.bad_address++;
  if (want_rrsig && !signatures)
    count.unsigned_++;
}

static void take(sock *k, const uint8_t *p, int n, uint64_t at) {
  static uint64_t seen;
  if (n < 12) {
    count.bad_match++;
    return;
  }
  uint16_t id = p[0] << 8 | p[1];
  slot *s = &k->slots[id % SLOTS];
  if (!s->busy || (s->generation & 63) != id >> 10) {
    count.stale++;
    return;
  }
  const query *q = &queries[s->query];
  s->busy = 0;
  k->unused[k->free++] = id % SLOTS;
  k->inflight--;
  if (!echo) {
    if (n < 12 + q->question || !(p[2] & 0x80) || p[4] || p[5] != 1 || memcmp(p + 12, q->wire + 12, q->question)) {
      count.bad_match++;
      return;
    }
    if ((p[3] & 15) != expect_rcode) {
      count.bad_rcode++;
      return;
    }
    count.truncated += (p[2] & 2) != 0;
    if (every && seen++ % every == 0)
      look_through(q, p, n);
  }
  uint64_t took = at > s->sent ? at - s->sent : 0;
  count.ok++;
  count.hist[bucket(took)]++;
  if (took > count.slowest)
    count.slowest = took;
}

static int receive(sock *k) {
  static uint8_t buf[BATCH][PACKET];
  static struct iovec vec[BATCH];
  static struct mmsghdr msg[BATCH];
  if (!k->inflight)
    return 0;
  for (int i = 0; i < BATCH; i++) {
    vec[i] = (struct iovec){buf[i], PACKET};
    memset(&msg[i].msg_hdr, 0, sizeof msg[i].msg_hdr);
    msg[i].msg_hdr.msg_iov = &vec[i];
    msg[i].msg_hdr.msg_iovlen = 1;
  }
  int n = recvmmsg(k->fd, msg, BATCH, MSG_DONTWAIT, NULL);
  uint64_t at = now_ns();
  for (int i = 0; i < n; i++)
    take(k, buf[i], msg[i].msg_len, at);
  return n;
}

// message describes n packets from vec as one: with more than one, the kernel cuts
// them apart again (UDP_SEGMENT). With -B each message has another sender.
static void message(struct msghdr *h, struct iovec *vec, int n, char *control) {
  memset(h, 0, sizeof *h);
  h->msg_iov = vec;
  h->msg_iovlen = n;
  int used = 0;
  if (n > 1) {
    struct cmsghdr *c = (void *)control;
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(2);
    *(uint16_t *)CMSG_DATA(c) = vec[0].iov_len;
    used = CMSG_SPACE(2);
  }
  if (prefix_bits) {
    struct in_pktinfo from = {0};
    from.ipi_spec_dst.s_addr = senders[draw() % SENDERS];
    struct cmsghdr *c = (void *)(control + used);
    c->cmsg_level = IPPROTO_IP;
    c->cmsg_type = IP_PKTINFO;
    c->cmsg_len = CMSG_LEN(sizeof from);
    memcpy(CMSG_DATA(c), &from, sizeof from);
    used += CMSG_SPACE(sizeof from);
    h->msg_name = &server;
    h->msg_namelen = sizeof server;
  }
  if (used) {
    h->msg_control = control;
    h->msg_controllen = used;
  }
}

// ask sends n queries at most. They count from base on, step ns apart; 0: from now.
static void ask(sock *k, int n, double base, double step) {
  static uint8_t buf[BATCH][320];
  static struct iovec vec[BATCH];
  static struct mmsghdr msg[BATCH];
  static char control[BATCH][64] __attribute__((aligned(8)));
  static uint16_t used[BATCH];
  if (n > BATCH)
    n = BATCH;
  if (n > k->free)
    n = k->free;
  if (n <= 0)
    return;
  uint64_t now = now_ns();
  for (int i = 0; i < n; i++) {
    uint16_t at = k->unused[--k->free];
    slot *s = &k->slots[at];
    const query *q = &queries[turn];
    s->query = turn;
    turn = turn + 1 < nqueries ? turn + 1 : 0;
    s->generation++;
    s->busy = 1;
    s->sent = base > 0 ? base + i * step : now;
    used[i] = at;
    memcpy(buf[i], q->wire, q->len);
    uint16_t id = at | (s->generation & 63) << 10;
    buf[i][0] = id >> 8;
    buf[i][1] = id;
    vec[i] = (struct iovec){buf[i], q->len};
  }
  int at = 0, messages = 0, size[BATCH];
  while (at < n) {
    int m = 1;
    while (at + m < n && m < segments && vec[at + m].iov_len == vec[at].iov_len)
      m++;
    message(&msg[messages].msg_hdr, vec + at, m, control[messages]);
    size[messages++] = m;
    at += m;
  }
  int done = 0, packets = 0;
  while (done < messages) {
    int r = sendmmsg(k->fd, msg + done, messages - done, MSG_DONTWAIT);
    if (r <= 0) {
      count.unsent++;
      break;
    }
    for (; r > 0; r--)
      packets += size[done++];
  }
  for (int i = n - 1; i >= packets; i--) { // what was not sent
    k->slots[used[i]].busy = 0;
    k->unused[k->free++] = used[i];
  }
  count.sent += packets;
  k->inflight += packets;
}

static void give_up(sock *k, uint64_t now) {
  for (int i = 0; i < SLOTS && k->inflight; i++) {
    slot *s = &k->slots[i];
    if (!s->busy || now < s->sent || now - s->sent < timeout_ms * 1000000ull)
      continue;
    s->busy = 0;
    k->unused[k->free++] = i;
    k->inflight--;
    count.lost++;
  }
}

static void open_sock(sock *k) {
  int room = 4 << 20, slots = SLOTS;
  k->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  if (setsockopt(k->fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room))
    setsockopt(k->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  setsockopt(k->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  // With many senders the socket has no peer: the kernel picks it by port alone.
  if (!prefix_bits && connect(k->fd, (void *)&server, sizeof server)) {
    perror("connect");
    exit(2);
  }
  if (rate <= 0)
    slots = window / nsocks < 1 ? 1 : window / nsocks > SLOTS ? SLOTS : window / nsocks;
  for (int i = 0; i < slots; i++)
    k->unused[k->free++] = i;
}

// server_cpu is the time that the server's threads were on a processor, in ns, and
// what the kernel's clock ticks say of user and system time, in ticks.
static uint64_t server_cpu(uint64_t *user, uint64_t *sys) {
  uint64_t sum = 0;
  *user = *sys = 0;
  for (int i = 0; i < npids; i++) {
    char path[400], line[1024];
    snprintf(path, sizeof path, "/proc/%d/task", pids[i]);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
      unsigned long long ns = 0;
      if (e->d_name[0] == '.')
        continue;
      snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", pids[i], e->d_name);
      FILE *f = fopen(path, "r");
      if (!f)
        continue;
      if (fscanf(f, "%llu", &ns) == 1)
        sum += ns;
      fclose(f);
    }
    if (d)
      closedir(d);
    snprintf(path, sizeof path, "/proc/%d/stat", pids[i]);
    FILE *f = fopen(path, "r");
    if (!f)
      continue;
    unsigned long long u = 0, s = 0;
    char *rest = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL; // the name may hold anything
    if (rest)
      sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &u, &s);
    *user += u;
    *sys += s;
    fclose(f);
  }
  return sum;
}

// run asks until the time is over and then waits for what is still outstanding.
static void run(sock *socks) {
  uint64_t start = now_ns(), from = start + warm_s * 1e9, to = from + measure_s * 1e9, looked = start;
  uint64_t grace = 0, began = 0, ended = 0, busy = 0, user = 0, sys = 0, user1 = 0, sys1 = 0;
  double step = rate > 0 ? 1e9 / rate : 0, next = start, cpu = 0;
  int measuring = 0, ending = 0, rotate = 0;
  for (;;) {
    uint64_t now = now_ns();
    if (!measuring && now >= from) {
      busy = server_cpu(&user, &sys);
      memset(&count, 0, sizeof count);
      for (int i = 0; i < nsocks; i++)
        count.sent += socks[i].inflight;
      measuring = 1;
      began = now_ns();
      cpu = own_cpu();
    }
    if (!ending && now >= to) {
      ending = 1;
      ended = now;
      cpu = own_cpu() - cpu;
      count.in_time = count.ok;
      busy = server_cpu(&user1, &sys1) - busy;
      grace = now + timeout_ms * 1000000ull;
    }
    int outstanding = 0;
    for (int i = 0; i < nsocks; i++) {
      receive(&socks[i]);
      if (!ending && rate <= 0 && socks[i].free >= least)
        ask(&socks[i], socks[i].free, 0, 0);
      outstanding += socks[i].inflight;
    }
    if (!ending && rate > 0) {
      now = now_ns();
      int due = 0;
      double then = next;
      for (; then <= now && due < BATCH; then += step)
        due++;
      int each = (due + nsocks - 1) / nsocks;
      for (int d = 0; d < due; d += each)
        ask(&socks[rotate++ % nsocks], due - d < each ? due - d : each, next + d * step, step);
      next = then;
    }
    if (now - looked > 5000000) {
      looked = now;
      for (int i = 0; i < nsocks; i++)
        give_up(&socks[i], now);
    }
    if (ending && (!outstanding || now > grace))
      break;
  }
  for (int i = 0; i < nsocks; i++)
    count.lost += socks[i].inflight;
  double s = (ended - began) / 1e9, qps = count.in_time / s;
  printf("{\"qps\":%.0f,\"sent\":%lu,\"ok\":%lu,\"lost\":%lu,\"stale\":%lu,\"unsent\":%lu,", qps, count.sent, count.ok,
         count.lost, count.stale, count.unsent);
  printf("\"bad_match\":%lu,\"bad_rcode\":%lu,\"no_answer\":%lu,\"bad_address\":%lu,\"unsigned\":%lu,\"truncated\":%lu,",
         count.bad_match, count.bad_rcode, count.no_answer, count.bad_address, count.unsigned_, count.truncated);
  printf("\"p50_us\":%.2f,\"p90_us\":%.2f,\"p99_us\":%.2f,\"max_us\":%.1f,", quantile_us(0.5), quantile_us(0.9),
         quantile_us(0.99), count.slowest / 1e3);
  printf("\"own_cpu\":%.3f,\"server_cpu\":%.3f,\"server_user_s\":%.2f,\"server_sys_s\":%.2f}\n", cpu / s,
         busy / 1e9 / s, (user1 - user) / (double)sysconf(_SC_CLK_TCK), (sys1 - sys) / (double)sysconf(_SC_CLK_TCK));
}

static int usage(void) {
  fprintf(stderr, "usage: dnsblast -f QUERIES [-s HOST -p PORT] [-S SOCKETS] [-w WINDOW | -q RATE] [-g SEGMENTS]\n"
                  "  [-m LEAST-FREE] [-d SEC] [-W WARM] [-V EVERY] [-T MS] [-e EDNS] [-D DO] [-G SIGNED] [-E ECHO]\n"
                  "  [-R RCODE] [-B SENDERS/BITS] [-P PID,...]\n");
  return 2;
}

int main(int argc, char **argv) {
  const char *host = "127.0.0.1", *file = NULL;
  char *slash;
  int port = 53, o;
  while ((o = getopt(argc, argv, "s:p:f:S:w:q:g:m:d:W:V:T:eDGER:B:P:")) != -1)
    switch (o) {
    case 's': host = optarg; break;
    case 'p': port = atoi(optarg); break;
    case 'f': file = optarg; break;
    case 'S': nsocks = atoi(optarg); break;
    case 'w': window = atoi(optarg); break;
    case 'q': rate = atof(optarg); break;
    case 'g': segments = atoi(optarg); break;
    case 'm': least = atoi(optarg); break;
    case 'd': measure_s = atof(optarg); break;
    case 'W': warm_s = atof(optarg); break;
    case 'V': every = atoi(optarg); break;
    case 'T': timeout_ms = atoi(optarg); break;
    case 'e': edns = 1; break;
    case 'D': edns = want_do = 1; break;
    case 'G': edns = want_do = want_rrsig = 1; break;
    case 'E': echo = 1; break;
    case 'R': expect_rcode = atoi(optarg); break;
    case 'B':
      if (!(slash = strchr(optarg, '/')))
        return usage();
      prefix_bits = atoi(slash + 1);
      *slash = 0;
      prefix = ntohl(inet_addr(optarg));
      break;
    case 'P':
      for (char *p = strtok(optarg, ","); p && npids < 64; p = strtok(NULL, ","))
        pids[npids++] = atoi(p);
      break;
    default: return usage();
    }
  if (!file || nsocks < 1 || prefix_bits < 0 || prefix_bits > 31)
    return usage();
  if (read_queries(file)) {
    fprintf(stderr, "dnsblast: no queries in %s\n", file);
    return 2;
  }
  server.sin_family = AF_INET;
  server.sin_port = htons(port);
  inet_aton(host, &server.sin_addr);
  if (segments > 64)
    segments = 64;
  if (least > window / nsocks)
    least = window / nsocks;
  if (least < 1)
    least = 1;
  for (int i = 0; i < SENDERS && prefix_bits; i++)
    senders[i] = htonl(prefix | (draw() & (0xffffffffu >> prefix_bits)));
  sock *socks = calloc(nsocks, sizeof *socks);
  for (int i = 0; i < nsocks; i++)
    open_sock(&socks[i]);
  run(socks);
  return 0;
}
