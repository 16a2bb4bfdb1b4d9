// Included in front of every file of a library whose steps are to be looked at: the one place where the driver tells where in
// its plan it stands, and another name for the pool, around which timeline.c puts itself.
#ifndef SINTER_TIMELINE_H
#define SINTER_TIMELINE_H

#define AT_STEP(m, number) timeline_step(number)
void timeline_step(int number);

#define sinter_host_open pool_open
#define sinter_host_close pool_close

#endif
