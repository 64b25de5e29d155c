// SPDX-License-Identifier: Apache-2.0
//! Lets mayfly see the blocks of a Rust program whose global allocator is built in.
//!
//! ```ignore
//! #[global_allocator]
//! static GLOBAL: mayfly_alloc::Reported<MyAllocator> = mayfly_alloc::Reported(MyAllocator);
//! ```
//!
//! Under `mayfly record` the blocks are recorded as malloc's would be; otherwise each call is one
//! test of a pointer that is null. Programs that use the default allocator (`System`) call malloc,
//! which mayfly sees without this. The contract is in mayfly/mayfly.h.
#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::asm;

/// The agent's table, `struct mayfly_agent_allocator` of mayfly/mayfly.h.
#[repr(C)]
struct Table {
    size: usize,
    alloc: extern "C" fn(*const u8, usize),
    free: extern "C" fn(*const u8),
    resize_begin: extern "C" fn(*mut [u64; 16], *const u8),
    resize_end: extern "C" fn(*const [u64; 16], *const u8, usize),
}

/// None when the program runs without the agent: the symbol is weak.
#[inline(always)]
fn agent() -> Option<&'static Table> {
    let table: *const Table;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        table = core::ptr::null();
    }
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(".weak mayfly_agent_allocator",
             "mov {}, qword ptr [rip + mayfly_agent_allocator@GOTPCREL]",
             out(reg) table, options(pure, readonly, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(".weak mayfly_agent_allocator",
             "adrp {0}, :got:mayfly_agent_allocator",
             "ldr {0}, [{0}, :got_lo12:mayfly_agent_allocator]",
             out(reg) table, options(pure, readonly, nostack, preserves_flags));
    }
    unsafe { table.as_ref() }
}

/// An allocator that reports its blocks.
pub struct Reported<A>(pub A);

unsafe impl<A: GlobalAlloc> GlobalAlloc for Reported<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = self.0.alloc(layout);
        if let Some(agent) = agent() {
            (agent.alloc)(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = self.0.alloc_zeroed(layout);
        if let Some(agent) = agent() {
            (agent.alloc)(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(agent) = agent() {
            (agent.free)(block);
        }
        self.0.dealloc(block, layout);
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let agent = match agent() {
            Some(agent) => agent,
            None => return self.0.realloc(block, layout, size),
        };
        let mut resize = [0u64; 16];
        (agent.resize_begin)(&mut resize, block);
        let result = self.0.realloc(block, layout, size);
        (agent.resize_end)(&resize, result, size);
        result
    }
}
