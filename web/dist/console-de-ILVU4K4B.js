import{a as p,c as m,pa as o}from"./chunk-IADULBYI.js";m(p(o,null),document.getElementById("app"));
