// SPDX-License-Identifier: Apache-2.0
//! A program whose allocator is built in: an arena of 64 MiB from mmap, with a list of free blocks
//! for each power of two. To try it:
//!
//!     rustc --edition 2021 -O --crate-type rlib mayfly_alloc.rs
//!     rustc --edition 2021 -O -g --extern mayfly_alloc=libmayfly_alloc.rlib demo.rs
//!     mayfly record ./demo
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

const ARENA: usize = 64 << 20;

extern "C" {
    fn mmap(at: *mut u8, length: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
}

struct Lists {
    next: *mut u8,
    end: *mut u8,
    free: [*mut u8; 64],
}

struct Arena {
    taken: AtomicBool,
    lists: UnsafeCell<Lists>,
}

unsafe impl Sync for Arena {}

impl Arena {
    fn with<R>(&self, work: impl FnOnce(&mut Lists) -> R) -> R {
        while self.taken.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let result = work(unsafe { &mut *self.lists.get() });
        self.taken.store(false, Ordering::Release);
        result
    }
}

fn class(layout: Layout) -> u32 {
    layout.size().max(layout.align()).max(16).next_power_of_two().trailing_zeros()
}

unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let class = class(layout);
        self.with(|lists| {
            let head = lists.free[class as usize];
            if !head.is_null() {
                lists.free[class as usize] = *(head as *mut *mut u8);
                return head;
            }
            if lists.next.is_null() {
                // PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS
                lists.next = mmap(ptr::null_mut(), ARENA, 3, 0x22, -1, 0);
                lists.end = lists.next.wrapping_add(ARENA);
            }
            let size = 1usize << class;
            let block = ((lists.next as usize + size - 1) & !(size - 1)) as *mut u8;
            if block as usize + size > lists.end as usize {
                return ptr::null_mut();
            }
            lists.next = block.wrapping_add(size);
            block
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let class = class(layout) as usize;
        self.with(|lists| {
            *(block as *mut *mut u8) = lists.free[class];
            lists.free[class] = block;
        })
    }
}

#[global_allocator]
static GLOBAL: mayfly_alloc::Reported<Arena> = mayfly_alloc::Reported(Arena {
    taken: AtomicBool::new(false),
    lists: UnsafeCell::new(Lists { next: ptr::null_mut(), end: ptr::null_mut(), free: [ptr::null_mut(); 64] }),
});

#[inline(never)]
fn keep_pages(count: usize) -> Vec<Box<[u8; 4096]>> {
    let mut pages = Vec::with_capacity(count);
    for i in 0..count {
        pages.push(Box::new([i as u8; 4096]));
    }
    pages
}

#[inline(never)]
fn grow_text(times: usize) -> String {
    let mut text = String::new();
    for i in 0..times {
        text.push_str(&i.to_string());
    }
    text
}

fn main() {
    let pages = keep_pages(3000);
    let threads: Vec<_> = (0..3).map(|n| std::thread::spawn(move || grow_text(20000 + n).len())).collect();
    let sum: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
    println!("{} {}", pages.len(), sum);
    std::mem::forget(pages);
}
