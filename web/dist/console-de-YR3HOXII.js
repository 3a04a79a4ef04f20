import{a as p,c as m,la as o}from"./chunk-O5F6MZLY.js";m(p(o,null),document.getElementById("app"));
