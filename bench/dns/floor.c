//go:build ignore

// floor - the least that answering over UDP costs: recvmmsg, a fixed answer put
// behind each packet, sendmmsg. It looks nothing up, and what it says is no valid
// answer to a query with EDNS. Others' speed is given as a part of its own.
//
//   cc -O2 -o floor floor.c && ./floor PORT
//
// The first line is for the Go tool alone, which is to leave this file be.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH 32
#define ROOM 512

// One A record whose owner is the question's name.
static const unsigned char record[16] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 10, 1, 2, 3};

int main(int argc, char **argv) {
  static unsigned char buf[BATCH][ROOM];
  static struct mmsghdr msg[BATCH];
  static struct iovec vec[BATCH];
  static struct sockaddr_in from[BATCH];

  int fd = socket(AF_INET, SOCK_DGRAM, 0), room = 1 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 5300)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, (void *)&at, sizeof at)) {
    perror("bind");
    return 1;
  }
  for (;;) {
    for (int i = 0; i < BATCH; i++) {
      vec[i] = (struct iovec){buf[i], ROOM - sizeof record};
      memset(&msg[i], 0, sizeof msg[i]);
      msg[i].msg_hdr.msg_iov = &vec[i];
      msg[i].msg_hdr.msg_iovlen = 1;
      msg[i].msg_hdr.msg_name = &from[i];
      msg[i].msg_hdr.msg_namelen = sizeof from[i];
    }
    int n = recvmmsg(fd, msg, BATCH, MSG_WAITFORONE, NULL);
    for (int i = 0; i < n; i++) {
      int len = msg[i].msg_len;
      if (len < 12)
        continue;
      buf[i][2] = 0x84; // QR, AA
      buf[i][3] = 0;
      buf[i][7] = 1; // one answer
      memcpy(buf[i] + len, record, sizeof record);
      vec[i].iov_len = len + sizeof record;
    }
    for (int done = 0; done < n;) {
      int k = sendmmsg(fd, msg + done, n - done, 0);
      if (k <= 0)
        break;
      done += k;
    }
  }
}
