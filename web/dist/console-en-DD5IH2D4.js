import{a as p,c as m,ma as o}from"./chunk-7HGPLBDL.js";m(p(o,null),document.getElementById("app"));
